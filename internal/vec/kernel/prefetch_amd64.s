//go:build !purego

#include "textflag.h"

// func Prefetch(row []uint32)
TEXT ·Prefetch(SB), NOSPLIT, $0-24
	MOVQ row_base+0(FP), AX
	MOVQ row_len+8(FP), CX
	TESTQ CX, CX
	JLE done

line:
	PREFETCHT0 (AX)
	ADDQ $64, AX
	SUBQ $16, CX
	JG line

done:
	RET
