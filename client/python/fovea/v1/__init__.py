"""The wire contract: proto/fovea/v1/vision.proto as protoc writes it."""
