"""Pairwise scores on any encoder, whose features include the attention maps: parsing and relation classification."""

from __future__ import annotations

from transformers import PreTrainedModel

from ..configuration.configuration_pairwise import PairwiseConfig
from .any_encoder import AnyEncoderPreTrainedModel, encoder_class
from .pairwise_parsing import PairwiseParsing
from .pairwise_relations import PairwiseRelations


class PairwisePreTrainedModel(AnyEncoderPreTrainedModel):
    """Loading and saving of the family; see [`PairwiseParser`] for what can be loaded."""

    config_class = PairwiseConfig
    base_model_prefix = "pairwise"

    @staticmethod
    def _encoder_class(config: PairwiseConfig) -> type[PreTrainedModel]:
        return encoder_class(type(config.encoder))


class PairwiseParser(PairwisePreTrainedModel, PairwiseParsing):
    r"""
    A dependency parser that reads the attention of all layers and heads of an encoder of any family (pairwise
    attention for dependency parsing and relation classification).

    Arcs are scored from the last hidden states of the two words and their attention to each other in every layer and
    head; see [`PairwiseScores`]. The leading special token stands for ROOT, or a learned state if the tokenizer adds
    none (`config.root`). No word is dropped: a word of several pieces has the state of the first piece or their mean
    (`config.word_state`), and the attention of all. In training, the attention is read before dropout, but under
    `"eager"` after it.

    With `objective="pairs"`, each pair of words has a relation or NONE, and the score of an arc is the log-odds of any
    relation. With `"head_select"`, arcs and relations have separate scores.

    `from_pretrained` loads checkpoints of this family and those of encoders: BERT, RoBERTa, ModernBERT, the encoder of
    T5, Llama and others that `AutoModel` knows. Only the scores of the latter are initialized:

    ```python
    >>> parser = PairwiseParser.from_pretrained("FacebookAI/xlm-roberta-base", num_labels=40)
    ```
    """


class PairwiseForRelationClassification(PairwisePreTrainedModel, PairwiseRelations):
    r"""
    The relation between two entities of a sentence, from their hidden states and their attention to each other in
    every layer and head (pairwise attention for dependency parsing and relation classification), on any encoder.

    The state of an entity is the mean over its pieces. Its attention to the other entity is the mean over its pieces
    of the sum over the other's pieces.

    ```python
    >>> model = PairwiseForRelationClassification.from_pretrained("FacebookAI/roberta-base", num_labels=19)
    ```

    """
