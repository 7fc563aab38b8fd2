package expression

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// expressions use all libraries, with results, errors and limits of all kinds. self is a list of
// texts.
var expressions = []string{
	"true", "false", "self.size() == 3", "self[0] == 'a'", "self[3] == 'a'", "self == oldSelf", "self.all(x, x != 'b')", "self.exists(x, x == 'c')",
	"self.exists_one(x, x > 'a')", "self.map(x, x + x).filter(x, x != 'aa').size() == 2", "self.all(i, x, i < 3 && x != '')", "'b' in self", "'b' in ['a', 'b']",
	"'a' in {'a': 1}", "has({'a': 1}.a)", "{'a': [1, 2]}['a'][1] == 2", "self[0] == 'a' || self[9] == 'a'", "self[9] == 'a' || self[0] == 'a'", "self[0] == 'a' ? true : self[9] == 'b'",
	"1 / 0 == 1", "9223372036854775807 + 1 > 0", "int('a') == 1", "string(1) == '1'", "bytes('a') == b'a'", "double('1.5') > 1", "timestamp('2020-01-01T00:00:00Z').getFullYear() == 2020",
	"duration('1h') < duration('2h')", "type(self) == list", "dyn(self) == 'a'", "dyn(self) + 1 == 2", "self.join(',') == 'a,b,c'", "'%s %d'.format(['a', 1]) == 'a 1'", "'a,b'.split(',') == ['a', 'b']",
	"'abc'.matches('^a.c$')", "self[0].matches('^' + self[0])", "self[0].matches(self[1] + '(')", "'abc'.find('[b-c]+') == 'bc'", "'abc'.findAll(self[0]) == ['a']", "'abc'.find(self[0] + '(') == ''", "self.isSorted() && self.min() == 'a' && self.indexOf('b') == 1",
	"url('https://a.example:80/b').getPort() == '80'", "isURL(self[0])", "url(self[0]).getHost() == ''", "ip('10.0.0.1').isLoopback()", "cidr('10.0.0.0/8').containsIP('10.1.1.1')", "ip(self[0]).family() == 4",
	"quantity('1k').isGreaterThan(quantity('1'))", "quantity(self[0]).isInteger()", "semver('1.2.3').isLessThan(semver('1.10.0'))", "format.dns1123Label().validate(self[0]).hasValue()", "!format.named('uuid').hasValue()",
	"sets.contains(self, ['a'])", "sets.equivalent(self, oldSelf)", "[1, 2, 3].transformList(i, v, i * v) == [0, 2, 6]", "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}", "[3, 1, 2].sort() == [1, 2, 3]", "[[1], [2]].flatten() == [1, 2]", "lists.range(3) == [0, 1, 2]",
	"optional.of(self).hasValue()", "optional.none().orValue(self) == oldSelf", "optional.of(self).or(optional.of(oldSelf)).value() == self", "self[?9].hasValue()", "self[?9].orValue('x') == 'x'", "optional.none().value() == 1", "optional.of(1).optMap(x, x + 1).value() == 2",
	"[optional.of(1), optional.none()].unwrapOpt() == [1]", "[?optional.of(1)] == [1]", "self.all(a, self.all(b, self.all(c, a + b + c != '')))", "self.map(x, x + x + x + x).map(x, x + x + x + x).all(x, x.contains(x))",
	"'" + strings.Repeat("a", 11000) + "'.contains('" + strings.Repeat("b", 11000) + "')", "self.all(x, '" + strings.Repeat("a", 9000) + "'.contains('" + strings.Repeat("b", 5000) + "' + x))",
}

// TestPlansAgree compares plans with the library's programs: result, cost and error must be the
// same.
func TestPlansAgree(t *testing.T) {
	scope := NewScope(apiservercel.NewListType(apiservercel.StringType, 10))
	list := func(items ...string) *Variables {
		l := types.NewStringList(types.DefaultTypeAdapter, items)
		return &Variables{Self: l, Old: l}
	}
	planned := 0
	for _, text := range expressions {
		ast, err := scope.compile(text, false, "")
		if err != nil {
			t.Errorf("%.80s: %v", text, err)
			continue
		}
		fast, err := planFor(ast)
		slow, slowErr := programFor(ast)
		if fmt.Sprint(err) != fmt.Sprint(slowErr) {
			t.Errorf("%.80s:\n got %v\nwant %v", text, err, slowErr)
		}
		if err != nil || slowErr != nil {
			continue
		}
		if _, ok := fast.(plan); ok {
			planned++
		}
		for _, in := range []*Variables{list("a", "b", "c"), list(), list("a"), {Self: types.NewErr("no"), Old: types.NullValue}, {Self: types.String("a")}} {
			got, want := outcome(fast, in), outcome(slow, in)
			if got != want {
				t.Errorf("%.80s:\n got %s\nwant %s", text, got, want)
			}
		}
	}
	if planned < len(expressions)/2 {
		t.Errorf("only %d of %d expressions are planned", planned, len(expressions))
	}
}

func outcome(r runner, in *Variables) string {
	v, cost, err := r.run(context.Background(), in)
	if err != nil {
		return fmt.Sprintf("cost %d, error %v, mismatched %t, too expensive %t", cost, err, Mismatched(err), TooExpensive(err))
	}
	return fmt.Sprintf("cost %d, %s %v", cost, v.Type().TypeName(), v.Value())
}
