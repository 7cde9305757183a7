"""Becomes a program under the seccomp profile of a container: under_seccomp.py PROFILE PROGRAM [ARGUMENTS].

PROFILE is JSON as Docker, Podman and Kubernetes' RuntimeDefault have it; the container has no capability. Run by Debian's
own Python, for which python3-seccomp is.
"""

import json
import os
import platform
import sys

import seccomp  # ty: ignore

ACTIONS = {
    "SCMP_ACT_ALLOW": lambda _: seccomp.ALLOW,
    "SCMP_ACT_ERRNO": lambda errno: seccomp.ERRNO(errno),
}
ARCHES = {"x86_64": {"amd64", "x86_64"}, "aarch64": {"arm64", "aarch64"}}


def applies(rule: dict) -> bool:
    """To a container without capabilities, on this machine."""
    here = ARCHES[platform.machine()]
    includes, excludes = rule.get("includes", {}), rule.get("excludes", {})
    if includes.get("caps") or here & set(excludes.get("arches", [])):
        return False
    return not includes.get("arches") or bool(here & set(includes["arches"]))


def argument(one: dict) -> seccomp.Arg:
    operation = getattr(seccomp, one["op"].removeprefix("SCMP_CMP_"))
    values = [one["value"]]
    if operation == seccomp.MASKED_EQ:
        values.append(one.get("valueTwo", 0))
    return seccomp.Arg(one["index"], operation, *values)


def load(profile: dict) -> None:
    default = ACTIONS[profile["defaultAction"]](profile.get("defaultErrnoRet", 1))
    rules = seccomp.SyscallFilter(default)
    known = 0
    for rule in profile["syscalls"]:
        if not applies(rule):
            continue
        action = ACTIONS[rule["action"]](rule.get("errnoRet", 1))
        if str(action) == str(default):
            continue
        for name in rule["names"]:
            try:
                rules.add_rule(action, name, *map(argument, rule.get("args") or []))
                known += 1
            except RuntimeError:
                pass  # a call that this libseccomp does not know, and so is not allowed
    if known < 100:
        raise SystemExit(f"the profile allows {known} calls: it was not understood")
    rules.load()  # sets no_new_privs too


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        load(json.load(file))
    os.execv(sys.argv[2], sys.argv[2:])
