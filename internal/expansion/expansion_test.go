package expansion

import (
	"strings"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/parser"
)

func chain(n int) string { return "optional.of(1)" + strings.Repeat(".optMap(x, x)", n) }

// TestExpanded compares the sizes of expanded expressions with those that the compiler makes.
func TestExpanded(t *testing.T) {
	env, err := cel.NewEnv(cel.OptionalTypes())
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{
		"1 + 2", "a.b.c", "a.optMap(x, x)", "a.optFlatMap(x, x)", "a.b.c.optMap(x, x)", chain(2), chain(3), chain(7),
		"[1, a.b.optMap(x, x), {a.optMap(x, x): a.b.c.optMap(x, x)}]",
		"a.optMap(x, a.b.optMap(y, y))", "f(a.b).optFlatMap(x, x).optMap(y, y)", "A{b: a.b.optMap(x, x)}.c.optMap(x, x)",
		"{'a': a.b.optMap(x, x)}.optMap(z, z)", "a.?b.optMap(x, x)", "a[?0].optMap(x, x)", "optMap(a.b, c)", "a.optMap(b)",
	} {
		parsed, issues := env.Parse(text)
		if issues != nil {
			t.Fatalf("%s: %v", text, issues)
		}
		want := 0
		ast.PreOrderVisit(parsed.NativeRep().Expr(), ast.NewExprVisitor(func(ast.Expr) { want++ }))
		plain, err := parser.NewParser(parser.EnableOptionalSyntax(true))
		if err != nil {
			t.Fatal(err)
		}
		unexpanded, _ := plain.Parse(common.NewTextSource(text))
		var c counter
		if got := c.expanded(unexpanded.Expr()); got != want {
			t.Errorf("%s: %d nodes, the compiler makes %d", text, got, want)
		}
	}
	for text, want := range map[string]int{"a": 0, "a.optMap(x, x)": 8, "a.b.optFlatMap(x, x)": 8, "a.optMap(x, x).optMap(x, x)": 8 + 19, chain(100): saturated, "optMap(a, b)": 0} {
		if got := Added(text); got != want {
			t.Errorf("%.50s: %d added nodes, want %d", text, got, want)
		}
	}
}

// TestCheck checks the limit, and that the check does not expand anything itself.
func TestCheck(t *testing.T) {
	for _, text := range []string{
		chain(6), "device.driver == 'a'", strings.Repeat("a.optMap(x, x) == b && ", 100) + "true",
		"self.?a.?b.optMap(x, x.size() > 0).orValue(false)", "'" + chain(40) + "' == ''", "(", "",
	} {
		if err := Check(text); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
	for _, text := range []string{
		chain(12), chain(100), chain(40) + ".hasValue() && ((", "optional.of(1)" + strings.Repeat("\n. optFlatMap ( x, optional.of(x) )", 30),
		"[" + strings.Repeat(chain(5)+",", 10) + "]", "{1: " + chain(20) + "}", "f(" + chain(20) + ")", "a.b(" + chain(20) + ").c", "A{b: " + chain(20) + "}",
		"[1].all(x, " + chain(20) + ".hasValue())", chain(500), "[" + chain(20) + ", " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + "]",
	} {
		if err := Check(text); err == nil {
			t.Errorf("%s: %d added nodes are allowed", text, Added(text))
		}
	}
}
