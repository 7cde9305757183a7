"""Python side of Fovea, an inference server for vision transformers."""

__version__ = "0.1.0"
