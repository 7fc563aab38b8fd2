package resource

import (
	"encoding/json"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	serializer "k8s.io/apimachinery/pkg/runtime/serializer/json"
)

var kindOfTest = schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}

func TestHasKind(t *testing.T) {
	for _, test := range []struct {
		data string
		want bool
	}{
		{`{"apiVersion":"apps/v1","kind":"Deployment"}`, true},
		{"\n{ \"kind\" : \"Deployment\" ,\t\"apiVersion\"\r:\"apps/v1\" } ", true},
		{`{"spec":{"kind":"Job","a":["}",{"b":"\"]\\"}],"Kind":1},"n":-1.5e3,"kind":"Deployment","z":null,"apiVersion":"apps/v1","t":true}`, true},
		{`{"kind":"Deployment"}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v2"}`, false},
		{`{"kind":"Job","apiVersion":"apps/v1"}`, false},
		{`{"kind":"Deployment","kind":"Deployment","apiVersion":"apps/v1"}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","KIND":"Job"}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","APIversion":"v1"}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","\u006bind":"Job"}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","` + "\u212a" + `ind":"Job"}`, false}, // the sign of the unit Kelvin folds to k
		{`{"kind":"Deployment","apiVersion":"apps/v1"`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1",}`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","a":"`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","a":"\`, false},
		{`{"kind":"Deployment","apiVersion":"apps/v1","a":[`, false},
		{`[{"kind":"Deployment","apiVersion":"apps/v1"}]`, false},
		{`"kind"`, false}, {``, false}, {`{`, false}, {`{}`, false}, {`null`, false},
	} {
		if got := hasKind([]byte(test.data), kindOfTest); got != test.want {
			t.Errorf("%s: got %v, want %v", test.data, got, test.want)
		}
	}
}

// FuzzHasKind compares with what json.Unmarshal finds.
func FuzzHasKind(f *testing.F) {
	for _, seed := range []string{
		`{"apiVersion":"apps/v1","kind":"Deployment"}`,
		`{"metadata":{"a":"\\\"","b":[1,{}]},"kind":"Deployment","apiVersion":"apps/v1"}`,
		`{"apiVersion":"apps/v1","kInd":"Job","kind":"Deployment"}`,
		`{"apiVersion":"apps/v1","kind":"Deployment","` + "\u212a" + `IND":"Job"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !json.Valid(data) || !hasKind(data, kindOfTest) {
			return
		}
		if got, err := serializer.DefaultMetaFactory.Interpret(data); err != nil || *got != kindOfTest {
			t.Errorf("%s: found %v, but json.Unmarshal %v, %v", data, kindOfTest, got, err)
		}
	})
}
