"""The analysis commands; `python -m msattn.analysis` lists them."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Sequence
from typing import Any

from msattn.analysis.comparison import ComparisonArguments, show_comparison
from msattn.analysis.distance_figure import DistanceArguments, show_distances
from msattn.analysis.diversity_figure import DiversityArguments, show_diversity
from msattn.analysis.doubt import DoubtArguments, write_doubtful
from msattn.analysis.effective_scale import EffectiveScaleArguments, run_effective_scale
from msattn.analysis.error_browser import ErrorBrowserArguments, browse_errors
from msattn.analysis.families import FamiliesArguments, show_families
from msattn.analysis.fused_attention_figure import FusedFigureArguments, draw_fused_attention
from msattn.analysis.heads_figure import HeadsFigureArguments, draw_heads
from msattn.analysis.importance_figure import ImportanceArguments, show_importance
from msattn.analysis.map_figure import MapFigureArguments, draw_attention_maps
from msattn.analysis.probing_figure import ProbingArguments, run_probing
from msattn.analysis.study_figure import StudyFigureArguments, draw_study
from msattn.analysis.windows_figure import WindowArguments, show_windows
from msattn.command_line import parse_arguments, run_cli
from msattn.errors import UserError

PROGRAM = "python -m msattn.analysis"
# Arguments and function of each command. The first docstring line of the function is its description.
COMMANDS: dict[str, tuple[type, Callable[[Any], None]]] = {
    "fused": (FusedFigureArguments, draw_fused_attention),
    "errors": (ErrorBrowserArguments, browse_errors),
    "map": (MapFigureArguments, draw_attention_maps),
    "heads": (HeadsFigureArguments, draw_heads),
    "diversity": (DiversityArguments, show_diversity),
    "distances": (DistanceArguments, show_distances),
    "importance": (ImportanceArguments, show_importance),
    "windows": (WindowArguments, show_windows),
    "probe": (ProbingArguments, run_probing),
    "doubt": (DoubtArguments, write_doubtful),
    "effective-scale": (EffectiveScaleArguments, run_effective_scale),
    "study": (StudyFigureArguments, draw_study),
    "compare": (ComparisonArguments, show_comparison),
    "families": (FamiliesArguments, show_families),
}


def main(argv: Sequence[str] | None = None, program: str = PROGRAM) -> None:
    """
    Runs a command, or lists all commands without one.

    Args:
        argv (`Sequence[str]`, *optional*): Command-line arguments. Default: those of the process.
        program (`str`, *optional*): The name of the program in its help.

    Raises:
        UserError: The command is unknown or fails.
    """
    name, *rest = list(sys.argv[1:] if argv is None else argv) or ["--help"]
    if name in ("-h", "--help"):
        print(f"usage: {program} COMMAND ... ({program} COMMAND --help lists its arguments)\n")
        for command, (_, run) in COMMANDS.items():
            print(f"  {command:15} {(inspect.getdoc(run) or '').splitlines()[0]}")
        return
    if name not in COMMANDS:
        raise UserError(f"{program}: there is no command {name}; there are {', '.join(COMMANDS)}.")
    arguments, run = COMMANDS[name]
    (args,) = parse_arguments([arguments], rest, f"{program} {name}")
    run(args)


if __name__ == "__main__":
    run_cli(main)
