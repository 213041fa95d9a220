#!/usr/bin/env python3
"""Unpacks a gzipped CSV of small integers into a C++ array's body: embed.py IN.csv.gz OUT.inc"""
import gzip
import sys

with gzip.open(sys.argv[1], "rt") as source, open(sys.argv[2], "w") as out:
    for line in source:
        out.write(line.strip() + ",\n")
