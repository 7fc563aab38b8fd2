package celwork

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	"github.com/google/cel-go/cel"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/apiserver/pkg/cel/library"
)

// bytesPerUnit bounds what the compiler allocates for each unit of an estimate. Literal durations
// allocate 150.
const bytesPerUnit = 200

// environmentOf returns the environment of Kubernetes with the variables a and s.
func environmentOf(t *testing.T) *cel.Env {
	t.Helper()
	base, err := environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()).Env(environment.NewExpressions)
	if err != nil {
		t.Fatal(err)
	}
	env, err := base.Extend(cel.Variable("a", cel.DynType), cel.Variable("s", cel.StringType), cel.Variable("m", cel.MapType(cel.StringType, cel.MapType(cel.StringType, cel.AnyType))))
	if err != nil {
		t.Fatal(err)
	}
	return env
}

// allocations returns the bytes that compiling an expression allocates.
func allocations(env *cel.Env, text string) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if checked, issues := env.Compile(text); issues == nil {
		_, _ = env.Program(checked)
		_, _ = env.EstimateCost(checked, &library.CostEstimator{})
	}
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func around(open, inner, end string) func(n int) string {
	return func(n int) string { return strings.Repeat(open, n) + inner + strings.Repeat(end, n) }
}

func repeated(before, each, after string) func(n int) string {
	return func(n int) string { return before + strings.Repeat(each, n) + after }
}

// shapes are expressions that grow. rejected is an n for which one exceeds the limit, 0 if none of
// at most 10 KiB does; allowed is one for which it must not.
var shapes = []struct {
	name              string
	text              func(n int) string
	allowed, rejected int
}{
	{"comparisons", repeated("", "s=='a'||", "true"), 200, 1200},
	{"orders", repeated("", "1<1||", "true"), 2000, 0},
	{"sums", repeated("'a'", "+s", "==s"), 100, 0},
	{"empty lists", repeated("", "[]==[]||", "true"), 300, 1000},
	{"empty maps", repeated("", "{}=={}||", "true"), 200, 1000},
	{"a list of empty lists", repeated("[", "[],", "[]]==[]"), 500, 3000},
	{"empty lists and orders", func(n int) string {
		return repeated("[", "[],", "[]]==[]")(n) + strings.Repeat("||1<1", n)
	}, 200, 1200},
	{"a long list", repeated("1 in [", "1,", "1]"), 4000, 0},
	{"optionals", repeated("", "optional.none()==optional.none()||", "true"), 250, 0},
	{"optional fields with a default", repeated("", "a.?b.c.orValue([]).all(c, c.d == 'a' && c.?e.f.orValue('') == '')&&", "true"), 80, 0},
	{"conditional lists", repeated("", "(has(a.b)?a.b:[]).all(c, c.d == 'a' && !has(c.e) || c.e.all(d, d.f == 'b'))&&", "true"), 80, 0},
	{"attributes", repeated("", "m['example.com'].uuid=='GPU-18db0e85-99e9-c746-8531-ffeb86328b39'||", "true"), 140, 0},
	{"indices", repeated("[", "[1][0],", "1]==[]"), 100, 1400},
	{"quantifiers", repeated("", "[1].all(x,x>0)&&", "true"), 150, 0},
	{"transformed maps", repeated("", "{'a':1}.transformMap(k,v,v)=={}&&", "true"), 50, 0},
	{"durations", repeated("", "duration('1s')<duration('2s')||", "true"), 300, 0},
	{"quantities", repeated("", "quantity('1').isLessThan(quantity('2'))||", "true"), 200, 0},
	{"formats", repeated("", "'%s'.format(['a'])==s||", "true"), 300, 0},
	{"unknown names", repeated("", "unknown||\n", "true"), 200, 0},
	{"undefined functions", repeated("a", ".f([])", "==1"), 100, 0},
	{"a chain of map", repeated("[1]", ".map(x,x)", "==[1]"), 20, 80},
	{"a chain of map in lists", repeated("[1]", ".map(x,[x])", "==[]"), 15, 80},
	{"a chain of map in maps", repeated("[1]", ".map(x,{x:x})", "==[]"), 4, 8},
	{"a chain of transformList", repeated("[1]", ".transformList(i,x,[x])", "==[]"), 15, 80},
	{"a chain of transformMap", repeated("{1:1}", ".transformMap(k,v,{k:v})", "=={}"), 2, 10},
	{"a chain of transformMapEntry", repeated("{1:1}", ".transformMapEntry(k,v,{k:v})", "=={}"), 2, 10},
	{"a chain of filter", repeated("[1]", ".filter(x,true)", "==[1]"), 80, 0},
	{"a chain of sortBy", repeated("[1]", ".sortBy(x,x)", "==[1]"), 80, 0},
	{"a chain of optMap", repeated("optional.of(1)", ".optMap(x,x)", ".hasValue()"), 5, 8},
	{"a chain of optFlatMap", repeated("optional.of(1)", ".optFlatMap(x,optional.of(x))", ".hasValue()"), 4, 8},
	{"optMap beside each other", repeated("", "optional.of(1).optMap(x,x).hasValue()&&", "true"), 100, 0},
	{"nested map", around("[1].map(x,", "1", ")"), 40, 80},
	{"nested all", around("[1].all(x,", "true", ")"), 80, 0},
	{"nested lists", around("[", "1", "]"), 80, 160},
	{"nested maps", around("{1:", "1", "}"), 60, 160},
	{"nested optionals", around("optional.of(", "1", ")"), 60, 160},
	{"variables bound to each other", func(n int) string {
		text := "true"
		for i := n; i > 0; i-- {
			text = fmt.Sprintf("[[]].all(x%d,x%d==[x%d]&&%s)", i, i-1, i, text)
		}
		return "[[]].all(x0," + text + ")"
	}, 20, 60},
	{"variables bound to maps of each other", func(n int) string {
		text := "true"
		for i := n; i > 0; i-- {
			text = fmt.Sprintf("[[]].all(x%d,x%d==[{x%d:x%d}]&&%s)", i, i-1, i, i, text)
		}
		return "[[]].all(x0," + text + ")"
	}, 2, 8},
	{"patterns with repeats", repeated("s.matches('", ".{1000}", "')"), 40, 250},
	{"patterns with repeated classes", repeated("s.find('", `(\\pL|a|b){1000}`, "')=='a'"), 20, 250},
}

// TestEstimate checks that the compiler allocates no more than estimated, and the limit for
// expressions that grow.
func TestEstimate(t *testing.T) {
	env := environmentOf(t)
	allocations(env, "true")
	for _, s := range shapes {
		if work := Estimate(s.text(s.allowed)); work > Limit {
			t.Errorf("%s: %d are %d units of work", s.name, s.allowed, work)
		}
		if s.rejected > 0 {
			if text := s.text(s.rejected); len(text) > 10<<10 || Estimate(text) <= Limit {
				t.Errorf("%s: %d with %d bytes are %d units of work", s.name, s.rejected, len(text), Estimate(text))
			}
		}
		for n := 1; n <= s.allowed; n *= 2 {
			text := s.text(n)
			work, spent := Estimate(text), allocations(env, text)
			if spent > uint64(work*bytesPerUnit) {
				t.Errorf("%s: %d allocate %d bytes, %d for each unit", s.name, n, spent, spent/uint64(work))
			}
		}
	}
}

// TestEstimateOfRandomExpressions compares the estimates of random expressions with the compiler.
func TestEstimateOfRandomExpressions(t *testing.T) {
	env := environmentOf(t)
	allocations(env, "true")
	g := generator{rand.New(rand.NewPCG(seeds.Of(t), 0))}
	compiled := 0
	for range 500 {
		text := g.expression(1+g.random.IntN(5), nil)
		work := Estimate(text)
		if work > Limit {
			continue
		}
		compiled++
		if spent := allocations(env, text); spent > uint64(work*bytesPerUnit) {
			t.Errorf("%d bytes for each unit: %s", spent/uint64(work), text)
		}
	}
	if compiled < 100 {
		t.Errorf("only %d expressions are within the limit", compiled)
	}
}

// generator makes expressions, of which many have type errors: the checker works on these as well.
type generator struct{ random *rand.Rand }

func (g generator) expression(depth int, variables []string) string {
	if depth == 0 {
		atoms := append([]string{"1", "'a'", "a", "s", "m", "[]", "{}", "optional.none()", "a.b", "a.?b"}, variables...)
		return atoms[g.random.IntN(len(atoms))]
	}
	below := func() string { return g.expression(g.random.IntN(depth), variables) }
	name := fmt.Sprintf("x%d", g.random.IntN(4))
	inside := func() string {
		return g.expression(g.random.IntN(depth), append([]string{name, name, name}, variables...))
	}
	switch g.random.IntN(16) {
	case 0:
		return "[" + below() + ", " + below() + "]"
	case 1:
		return "{" + below() + ": " + below() + "}"
	case 2:
		return "(" + below() + " == " + below() + ")"
	case 3:
		return "(" + below() + " + " + below() + ")"
	case 4:
		return "(true ? " + below() + " : " + below() + ")"
	case 5:
		return "[" + below() + "][0]"
	case 6:
		return "optional.of(" + below() + ").orValue(" + below() + ")"
	case 7:
		return "optional.of(" + below() + ").optMap(" + name + ", " + inside() + ")"
	case 8, 9:
		return "[" + below() + "].map(" + name + ", " + inside() + ")"
	case 10:
		return below() + ".filter(" + name + ", " + inside() + " == " + inside() + ")"
	case 11:
		return below() + ".all(" + name + ", " + inside() + " == " + inside() + ")"
	case 12:
		return "{'k': " + below() + "}.transformMap(k, " + name + ", " + inside() + ")"
	case 13:
		return "[[]].all(" + name + ", " + inside() + " == [" + inside() + "])"
	case 14:
		return "(" + below() + " in " + below() + ")"
	}
	return "(" + below() + " < " + below() + " || " + below() + " == " + below() + ")"
}

// TestUnusualExpressions checks estimates of expressions with syntax errors, whose macros the
// parser expands all the same.
func TestUnusualExpressions(t *testing.T) {
	chain := repeated("optional.of(1)", ".optMap(x, x)", "")
	for _, text := range []string{
		chain(40) + ".hasValue() && ((", "optional.of(1)" + strings.Repeat("\n. optFlatMap ( x, optional.of(x) )", 30),
		"{1: " + chain(20) + "}", "f(" + chain(20) + ")", "a.b(" + chain(20) + ").c", "A{b: " + chain(20) + "}", "-(" + chain(20) + ")", "a." + chain(20),
		"[1].all(x, " + chain(20) + ".hasValue())", chain(500), "[" + chain(20) + ", " + strings.Repeat("(", 300) + "1" + strings.Repeat(")", 300) + "]",
	} {
		if work := Estimate(text); work <= Limit {
			t.Errorf("%.100s: %d units of work", text, work)
		}
	}
	for _, text := range []string{"", "(", "'" + chain(40) + "' == ''", strings.Repeat("(", 3000), "optMap(a, b)", "a.optMap(b)", "a.all(1, b)", "[1].all(1, 2, 3)", "a.?b", "a[?0]", "A{?b: c}", "'('.matches('(')"} {
		if work := Estimate(text); work > Limit {
			t.Errorf("%.100s: %d units of work", text, work)
		}
	}
}

// TestMacrosAreKnown checks that all macros of Kubernetes are estimated.
func TestMacrosAreKnown(t *testing.T) {
	found := 0
	for _, m := range environmentOf(t).Macros() {
		if m.Function() == "has" {
			continue
		}
		if _, ok := macroOf(m.Function(), m.ArgCount()); !ok || !m.IsReceiverStyle() || m.ArgCount() == 0 {
			t.Errorf("%s with %d arguments is unknown", m.Function(), m.ArgCount())
		}
		found++
	}
	if found < 15 {
		t.Errorf("only %d macros", found)
	}
}

// TestBudget checks the bound for all expressions of an object.
func TestBudget(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	b := NewBudget(ctx)
	large := strings.Repeat("s=='a'||", 500) + "true"
	spent := 0
	for ; ; spent += Estimate(large) {
		if _, err := b.Spend(large); err != nil {
			break
		}
	}
	if spent > ObjectLimit || spent < ObjectLimit-Limit {
		t.Errorf("%d units of work are allowed", spent)
	}
	if _, err := b.Spend("true"); err == nil || !strings.Contains(err.Error(), "all expressions of the object") {
		t.Errorf("beyond the limit: %v", err)
	}

	// Each variable has the type of that before it, in 30 lists.
	b = NewBudget(ctx)
	declared := 0
	for ; declared < 50; declared++ {
		if _, err := b.Declare(around("[", "variables.a", "]")(30)); err != nil {
			break
		}
	}
	if declared < 1 || declared == 50 {
		t.Errorf("%d variables with large types are allowed", declared)
	}

	cancel()
	if _, err := NewBudget(ctx).Spend("true"); err != context.Canceled {
		t.Errorf("after the end of the context: %v", err)
	}
}

// TestErrorsOfLongLines checks that the messages of errors take no more work than is spent for
// them, and that the text to compile has the meaning of the expression.
func TestErrorsOfLongLines(t *testing.T) {
	env := environmentOf(t)
	allocations(env, "true")
	for n := 1; n < 20000; n *= 2 {
		for _, errors := range []int{1, 5, 20, 110} {
			text := "'" + strings.Repeat("a", n) + "' == ''" + strings.Repeat("||u", errors)
			b := NewBudget(t.Context())
			compiled, err := b.Spend(text)
			if err != nil {
				t.Fatal(err)
			}
			message, spent := messageOf(env, compiled)
			if b.Failed(text, compiled, message) {
				var second uint64
				message, second = messageOf(env, text)
				spent += second
			}
			if spent > uint64(b.spent*bytesPerUnit) {
				t.Errorf("%d errors in %d bytes: %d bytes for each unit", errors, len(text), spent/uint64(b.spent))
			}
			if shown := strings.Contains(message, "^"); len(text)*errors < 1000 && !shown || len(text)*errors > 100_000 && shown {
				t.Errorf("%d errors in %d bytes are shown: %v", errors, len(text), shown)
			}
		}
	}
	for _, text := range []string{"'a' == 'a'", "'" + strings.Repeat("a", 2000) + "' != ''", "true //" + strings.Repeat("a", 2000) + "\r\n && true\n"} {
		compiled, err := NewBudget(t.Context()).Spend(text)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(strings.Fields(compiled), " ") != strings.Join(strings.Fields(text), " ") || strings.Count(compiled, "\n") != strings.Count(text, "\n") {
			t.Errorf("%.100q becomes %.100q", text, compiled)
		}
		if _, issues := env.Compile(compiled); issues != nil {
			t.Error(issues)
		}
	}
	for _, quotes := range []string{`"""`, "'''"} {
		for text, allowed := range map[string]bool{strings.Repeat("a", 2000): false, strings.Repeat("a\n", 2000): true} {
			if _, err := NewBudget(t.Context()).Spend(quotes + text + quotes); (err == nil) != allowed {
				t.Errorf("%s%.20q: %v", quotes, text, err)
			}
		}
	}
}

// messageOf returns the errors of an expression, and what compiling it and making them allocates.
func messageOf(env *cel.Env, text string) (message string, allocated uint64) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, issues := env.Compile(text)
	message = issues.String()
	runtime.ReadMemStats(&after)
	return message, after.TotalAlloc - before.TotalAlloc
}
