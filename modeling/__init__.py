"""Models, and the attention layers that they share: tensors in, tensors out."""

# First of all: importing it registers the attention implementations, which need files of this folder.
import transformers.modeling_utils  # noqa: F401
