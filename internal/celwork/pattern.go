package celwork

import "regexp/syntax"

// instructionWork is the work to compile an instruction of a regular expression, which happens when
// the expression is validated and again when its program is made.
const instructionWork = 10

// patternWork returns the work to compile a regular expression.
func patternWork(text string) int {
	re, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return len(text)
	}
	return times(instructions(re), instructionWork)
}

// instructions returns the number of instructions of the program of a regular expression, whose
// repeats are copied.
func instructions(re *syntax.Regexp) int {
	n := 1
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = plus(n, instructions(sub))
	}
	if re.Op == syntax.OpRepeat {
		n = times(n, max(re.Min+1, re.Max))
	}
	return n
}
