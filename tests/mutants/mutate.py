#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
"""Writes a source with one thing taken out: mutate.py INPUT OUTPUT TEXT REPLACEMENT.

Fails if TEXT does not stand in INPUT exactly once, so that a mutation cannot lose its meaning
unseen.
"""
import sys


def main() -> None:
    source, target, text, replacement = sys.argv[1:5]
    with open(source, encoding="utf-8") as file:
        content = file.read()
    if content.count(text) != 1:
        sys.exit(f"mutate.py: '{text}' stands {content.count(text)} times in {source}")
    with open(target, "w", encoding="utf-8") as file:
        file.write(content.replace(text, replacement))


main()
