#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
"""Writes a source with one mistake in it or in a header of kernels/:

    mutants.py ROOT UNIT OUTPUT FILE TEXT REPLACEMENT

OUTPUT is UNIT with the headers of kernels/ put in the place of their includes, so that it alone has
the mistake. Fails if TEXT does not stand in FILE exactly once, or UNIT does not use FILE.
"""
import re
import sys

INCLUDE = re.compile(r'#include "(kernels/[^"]+)"')


class Unit:
    def __init__(self, root: str, mutated: str, text: str, replacement: str) -> None:
        self.root, self.mutated = root, mutated
        self.text, self.replacement = text, replacement
        self.seen: set[str] = set()

    def expand(self, name: str) -> str:
        if name in self.seen:
            return ""
        self.seen.add(name)
        with open(f"{self.root}/{name}", encoding="utf-8") as file:
            content = file.read()
        if name == self.mutated:
            times = content.count(self.text)
            if times != 1:
                sys.exit(f"mutants.py: '{self.text}' stands {times} times in {name}")
            content = content.replace(self.text, self.replacement)
        lines = []
        for line in content.splitlines():
            include = INCLUDE.match(line)
            if include:
                lines.append(self.expand(include[1]))
            elif line != "#pragma once":
                lines.append(line)
        return "\n".join(lines) + "\n"


def main() -> None:
    root, name, output, mutated, text, replacement = sys.argv[1:7]
    unit = Unit(root, mutated, text, replacement)
    content = unit.expand(name)
    if mutated not in unit.seen:
        sys.exit(f"mutants.py: {name} does not use {mutated}")
    with open(output, "w", encoding="utf-8") as file:
        file.write(content)


main()
