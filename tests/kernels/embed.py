#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
"""Writes a file's bytes as a C++ array: embed.py INPUT OUTPUT SYMBOL."""
import sys


def main() -> None:
    source, target, symbol = sys.argv[1:4]
    with open(source, "rb") as file:
        data = file.read()
    rows = [", ".join(str(b) for b in data[i:i + 24]) for i in range(0, len(data), 24)]
    with open(target, "w", encoding="ascii") as file:
        file.write(f'extern "C" {{\nextern const unsigned char {symbol}[];\n'
                   f"alignas(16) const unsigned char {symbol}[] = {{\n")
        file.write(",\n".join(rows))
        file.write("};\n}\n")


main()
