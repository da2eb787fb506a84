"""The model card that a checkpoint gets, as a template for `huggingface_hub`."""
