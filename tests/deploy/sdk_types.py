"""The types of KServe's SDK and of Kubernetes' client, printed as JSON: {"V1Container": {"image": "str", ...}, ...}.

A program of its own: KServe's messages and tritonclient's have the same names, and one process cannot hold both.
"""

from __future__ import annotations

import json

import kserve.models
import kubernetes.client.models


def main() -> None:
    found: dict[str, dict[str, str]] = {}
    for module in (kubernetes.client.models, kserve.models):
        for name in dir(module):
            model = getattr(module, name)
            types = getattr(model, "openapi_types", None)
            if isinstance(types, dict):
                found[name] = {
                    model.attribute_map[field]: of for field, of in types.items()
                }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
