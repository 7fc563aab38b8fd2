package corpus

import (
	"strings"
	"testing"
	"time"
)

func TestNormalise(t *testing.T) {
	now := time.Now().UTC()
	for _, tc := range []struct {
		name, input, body, want string
	}{
		{"equal versions are equal", "",
			`[{"metadata":{"resourceVersion":"12"}},{"metadata":{"resourceVersion":"15"}},{"metadata":{"resourceVersion":"12"}}]`,
			`[{"metadata": {"resourceVersion": "<rv1>"}}, {"metadata": {"resourceVersion": "<rv2>"}}, {"metadata": {"resourceVersion": "<rv1>"}}]`},
		{"the version of a list is apart", "",
			`{"items":[{"metadata":{"resourceVersion":"12"}}],"metadata":{"resourceVersion":"12"}}`,
			`{"items": [{"metadata": {"resourceVersion": "<rv1>"}}], "metadata": {"resourceVersion": "<list-rv1>"}}`},
		{"a version of the script stays", "GET /x?resourceVersion=12", `{"metadata":{"resourceVersion":"12"}}`, `{"metadata": {"resourceVersion": "12"}}`},
		{"another number of the script does not protect a version", "GET /x?limit=12", `{"metadata":{"resourceVersion":"12"}}`, `{"metadata": {"resourceVersion": "<rv1>"}}`},
		{"versions in messages", "",
			`{"message":"too old resource version: 7 (9)","metadata":{"resourceVersion":"7"}}`,
			`{"message": "too old resource version: <rv1> (<list-rv1>)", "metadata": {"resourceVersion": "<rv1>"}}`},
		{"UIDs anywhere", "",
			`{"message":"UID: 3f0c7a52-5d0a-4d1c-9a53-0e6d0b0f5c11","uid":"3f0c7a52-5d0a-4d1c-9a53-0e6d0b0f5c11"}`,
			`{"message": "UID: <uid1>", "uid": "<uid1>"}`},
		{"times near now", "", `["` + now.Format(time.RFC3339) + `","` + now.Format("2006-01-02T15:04:05.000000Z07:00") + `","2001-02-03T04:05:06Z"]`,
			`["<time>", "<microtime>", "2001-02-03T04:05:06Z"]`},
		{"the namespace", "", `{"message":"namespaces \"corpus-abc\" not found"}`, `{"message": "namespaces \"{ns}\" not found"}`},
		{"generated names", `{"metadata":{"generateName":"a-"}}`, `{"name":"a-x2k9z","message":"\"a-x2k9z\" and a-longer"}`,
			`{"message": "\"a-<suffix1>\" and a-longer", "name": "a-<suffix1>"}`},
		{"the prefix of a generated name in a UID", `{"metadata":{"generateName":"b1"}}`, `{"uid":"1eae3a93-e5b0-4938-88ff-80547b1bcdf4"}`, `{"uid": "<uid1>"}`},
		{"ages in cells only", "", `{"cells":["5s","3m20s","5x"],"other":"5s"}`, `{"cells": ["<age>", "<age>", "5x"], "other": "5s"}`},
		{"continue tokens", "", `{"metadata":{"continue":"eyJ2"}}`, `{"metadata": {"continue": "<continue>"}}`},
		{"managedFields are left out", "", `{"metadata":{"managedFields":[{}],"name":"n"}}`, `{"metadata": {"name": "n"}}`},
		{"quoted objects", "", `{"message":"patch: Invalid value: \"{\\\"a\\\":1}\": unknown"}`, `{"message": "patch: Invalid value: \"<object>\": unknown"}`},
		{"types of self", "", `{"message":"applied to '(selfType17, int)'"}`, `{"message": "applied to '(selfType<N>, int)'"}`},
		{"numbers stay as written", "", `[1.50,1e3,9007199254740993]`, `[1.50, 1e3, 9007199254740993]`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			n := newNormalizer("corpus-abc", nil)
			n.keepValuesOf(tc.input)
			n.keepPrefixesOf(tc.input)
			v, err := decodeJSON([]byte(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			if got := compact(n.value(v, false)); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestPrint(t *testing.T) {
	v, err := decodeJSON([]byte(`{"b":{"c":[1,"<>"]},"a":null,"long":["` + strings.Repeat("x", 100) + `",{"k":1}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	printValue(&b, v, nil)
	want := "{\n  \"a\": null,\n  \"b\": {\"c\": [1, \"<>\"]},\n  \"long\": [\n    \"" + strings.Repeat("x", 100) + "\",\n    {\"k\": 1}\n  ]\n}\n"
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestField(t *testing.T) {
	v, err := decodeJSON([]byte(`{"items":[{"metadata":{"name":"a.b"},"v":1},{"name":"c","v":2},{}],"x.y":{"z":null}}`))
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		".items.0.v":          "1",
		".items.name=a~b.v":   "1",
		".items.name=c.v":     "2",
		".items.*.v":          "[1, 2]",
		".x~y.z":              "null",
		".items.9":            "absent",
		".items.-1":           "absent",
		".items.name=d":       "absent",
		".items.0.metadata.q": "absent",
		".x~y.z.deeper":       "absent",
	} {
		got := "absent"
		if value, found := field(v, path); found {
			got = compact(value)
		}
		if got != want {
			t.Errorf("%s: got %s, want %s", path, got, want)
		}
	}
}

func TestSortCauses(t *testing.T) {
	for name, tc := range map[string]struct{ in, want string }{
		"sorted": {
			`{"message":"X is invalid: [b: two, a: one]","details":{"causes":[{"field":"b","message":"two"},{"field":"a","message":"one"}]}}`,
			`X is invalid: [a: one, b: two]`},
		"other words": {
			`{"message":"X is invalid: [b: two, c: three]","details":{"causes":[{"field":"b","message":"two"},{"field":"a","message":"one"}]}}`,
			`X is invalid: [b: two, c: three]`},
		"more than the causes": {
			`{"message":"X is invalid: [b: two, a: one, c]","details":{"causes":[{"field":"b","message":"two"},{"field":"a","message":"one"}]}}`,
			`X is invalid: [b: two, a: one, c]`},
	} {
		v, err := decodeJSON([]byte(tc.in))
		if err != nil {
			t.Fatal(err)
		}
		sortCauses(v)
		if got, _ := field(v, ".message"); got != tc.want {
			t.Errorf("%s: got %s, want %s", name, got, tc.want)
		}
	}
}
