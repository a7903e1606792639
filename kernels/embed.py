#!/usr/bin/env python3
# SPDX-License-Identifier: LGPL-2.1-or-later
# Copyright (C) 2026 The cudaipc authors
"""Writes C++ that holds a file's bytes: embed.py INPUT OUTPUT SYMBOL."""
import os
import sys


def main() -> None:
    source, target, symbol = sys.argv[1:4]
    # The assembler copies the file: as an array, megabytes would take the compiler minutes.
    lines = [".pushsection .rodata", ".balign 16", f".global {symbol}", f".hidden {symbol}",
             f".type {symbol}, @object", f"{symbol}:", f'.incbin \\"{os.path.abspath(source)}\\"',
             f".size {symbol}, . - {symbol}", ".popsection"]
    with open(target, "w", encoding="utf-8") as file:
        file.write("asm(\n" + "".join(f'    "{line}\\n"\n' for line in lines) + ");\n")


main()
