package expression

import (
	"context"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

func TestScope(t *testing.T) {
	self := apiservercel.NewObjectType("object", map[string]*apiservercel.DeclField{
		"name":          apiservercel.NewDeclField("name", apiservercel.StringType, false, nil, nil),
		"__namespace__": apiservercel.NewDeclField("__namespace__", apiservercel.StringType, false, nil, nil),
	})
	s := NewScope(self)
	condition := func(optional bool) func(string) (*Expression, error) {
		return func(text string) (*Expression, error) { return s.Condition(text, optional) }
	}
	message := func(text string) (*Expression, error) { return s.Message(text, false) }
	for _, test := range []struct {
		text    string
		compile func(string) (*Expression, error)
		usesOld bool
		err     string
	}{
		{text: "self.name == 'a'", compile: condition(false)},
		{text: "self.namespace == 'a' && self.__namespace__ == 'a'", compile: condition(false)},
		{text: "self.name == oldSelf.name", compile: condition(false), usesOld: true},
		{text: "oldSelf.name == 'a'", compile: condition(true), err: "found no matching overload"},
		{text: "oldSelf.?name.hasValue()", compile: condition(true), usesOld: true},
		{text: "oldSelf.hasValue()", compile: condition(false), err: "compilation failed: "},
		{text: "['oldSelf'] == ['a']", compile: condition(false)},
		{text: "self.other", compile: condition(false), err: "undefined field 'other'"},
		{text: "other", compile: condition(false), err: "undeclared reference to 'other'"},
		{text: "self.name", compile: condition(false), err: "cel expression must evaluate to a bool"},
		{text: "self.name", compile: message},
		{text: "'was ' + oldSelf.name", compile: message, usesOld: true},
		{text: "1", compile: message, err: "messageExpression must evaluate to a string"},
		{text: "(", compile: message, err: "messageExpression compilation failed: "},
		{text: "self.name.matches('(')", compile: condition(false), err: "compilation failed: "},
		{text: "authorizer.path('/').check('get').allowed()", compile: condition(false), err: "undeclared reference to 'authorizer'"},
	} {
		e, err := test.compile(test.text)
		switch {
		case test.err != "":
			if err == nil || !strings.Contains(err.Error(), test.err) {
				t.Errorf("%s: got %v, want %s", test.text, err, test.err)
			}
		case err != nil:
			t.Errorf("%s: %v", test.text, err)
		case e.UsesOld() != test.usesOld:
			t.Errorf("%s: uses old value: %t", test.text, e.UsesOld())
		}
	}
}

// BenchmarkEval measures a plan against a program of the library.
func BenchmarkEval(b *testing.B) {
	scope := NewScope(apiservercel.NewListType(apiservercel.StringType, 10))
	ast, err := scope.compile("self.size() < 5 && self.all(x, x.startsWith('a') || x == 'b')", false, "")
	if err != nil {
		b.Fatal(err)
	}
	in := &Variables{Self: types.NewStringList(types.DefaultTypeAdapter, []string{"a", "b", "aa"})}
	for name, make := range map[string]func() (runner, error){
		"plan":    func() (runner, error) { return planFor(ast) },
		"program": func() (runner, error) { return programFor(ast) },
	} {
		r, err := make()
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if v, _, err := r.run(context.Background(), in); err != nil || v != types.True {
					b.Fatal(v, err)
				}
			}
		})
	}
}
