#!/usr/bin/python3
"""The least exec device (docs/exec.md): every word of a program takes 1000 cycles.

    loopwright device check 'exec:examples/exec/words.py' --target npu_edge16
"""

from lw_exec import serve

serve("words", "1", lambda program: 1000.0 * len(program.words))
