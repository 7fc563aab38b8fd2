package schema

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// ruleCases are schemas of the field spec, its values before and after a write, and the errors.
// Kubernetes must agree.
var ruleCases = []struct {
	name, schema string
	old, new     string // of spec; without old, the object is created
	want         []string
	warnings     []string
}{
	{name: "holds", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1}]}`, new: `2`},
	{name: "broken", schema: `{type: integer, x-kubernetes-validations: [{rule: " self > 1 "}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: self > 1`}},
	{name: "message", schema: `{type: string, x-kubernetes-validations: [{rule: self == 'a', message: " must be a "}]}`, new: `b`,
		want: []string{`spec: Invalid value: "b": must be a`}},
	{name: "objects are not shown", schema: `{type: object, properties: {a: {type: string}}, x-kubernetes-validations: [{rule: has(self.a), message: no a}]}`, new: `{}`,
		want: []string{`spec: Invalid value: no a`}},
	{name: "several", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1}, {rule: ""}, {rule: self > 2}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: self > 1`, `spec: Invalid value: 1: failed rule: self > 2`}},

	{name: "reason required", schema: `{type: string, x-kubernetes-validations: [{rule: self != '', reason: FieldValueRequired, message: say it}]}`, new: `""`,
		want: []string{`spec: Required value: say it`}},
	{name: "reason forbidden", schema: `{type: string, x-kubernetes-validations: [{rule: self != 'a', reason: FieldValueForbidden}]}`, new: `a`,
		want: []string{`spec: Forbidden: failed rule: self != 'a'`}},
	{name: "reason duplicate", schema: `{type: string, x-kubernetes-validations: [{rule: self != 'a', reason: FieldValueDuplicate}]}`, new: `a`,
		want: []string{`spec: Duplicate value: "a"`}},
	{name: "reason invalid", schema: `{type: string, x-kubernetes-validations: [{rule: self != 'a', reason: FieldValueInvalid, message: x}]}`, new: `a`,
		want: []string{`spec: Invalid value: "a": x`}},

	{name: "field path", schema: `{type: object, properties: {a: {type: object, properties: {b: {type: integer}}}}, x-kubernetes-validations: [{rule: self.a.b > 1, fieldPath: .a.b}]}`,
		new: `{a: {b: 1}}`, want: []string{`spec.a.b: Invalid value: failed rule: self.a.b > 1`}},
	{name: "field path with key", schema: `{type: object, properties: {a: {type: object, additionalProperties: {type: integer}}}, x-kubernetes-validations: [{rule: "false", fieldPath: "['a']['x\\'y']"}]}`,
		new: `{}`, want: []string{`spec.a[x'y]: Invalid value: failed rule: false`}},

	{name: "explained", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: bad, messageExpression: "'is ' + string(self)"}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: is 1`}},
	{name: "explained by nothing", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: bad, messageExpression: "'  '"}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: bad`}},
	{name: "explained by lines", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1, messageExpression: "'a\\nb'"}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: self > 1`}},
	{name: "explained by a lot", schema: `{type: string, x-kubernetes-validations: [{rule: self == '', message: bad, messageExpression: self}]}`, new: strings.Repeat("a", 5*1024+1),
		want: []string{`spec: Invalid value: "` + strings.Repeat("a", 5*1024+1) + `": bad`}},
	{name: "explanation fails", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1, message: bad, messageExpression: "string(1 / self)"}]}`, new: `0`,
		want: []string{`spec: Invalid value: 0: bad`}},
	{name: "explanation with old value", schema: `{type: integer, x-kubernetes-validations: [{rule: self >= oldSelf, messageExpression: "string(self) + ' < ' + string(oldSelf)"}]}`, old: `2`, new: `1`,
		want: []string{`spec: Invalid value: 1: 1 < 2`}},
	{name: "explanation alone cannot use old value", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 2, message: bad, messageExpression: "'was ' + string(oldSelf)"}]}`, old: `2`, new: `1`,
		want: []string{`spec: Invalid value: 1: bad`}},

	{name: "transition at creation", schema: `{type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}`, new: `1`},
	{name: "transition", schema: `{type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}`, old: `2`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: self >= oldSelf`}},
	{name: "transition from null", schema: `{type: integer, nullable: true, x-kubernetes-validations: [{rule: self >= oldSelf}]}`, old: `null`, new: `1`},
	{name: "transition to null", schema: `{type: integer, nullable: true, x-kubernetes-validations: [{rule: self >= oldSelf}]}`, old: `1`, new: `null`},
	{name: "optional old value at creation", schema: `{type: integer, x-kubernetes-validations: [{rule: oldSelf.hasValue(), optionalOldSelf: true}]}`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: oldSelf.hasValue()`}},
	{name: "optional old value", schema: `{type: integer, x-kubernetes-validations: [{rule: oldSelf.orValue(0) < self, optionalOldSelf: true}]}`, old: `3`, new: `3`,
		want: []string{`spec: Invalid value: 3: failed rule: oldSelf.orValue(0) < self`}},
	{name: "transition of items with keys", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}}}`,
		old: `[{k: a, v: 3}, {k: b, v: 1}]`, new: `[{k: b, v: 1}, {k: a, v: 2}, {k: c, v: 0}]`,
		want: []string{`spec[1].v: Invalid value: 2: failed rule: self >= oldSelf`}},
	{name: "transition of items with two keys", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: integer}, v: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}}}`,
		old: `[{k: a, l: 1, v: 3}, {k: a, l: 2, v: 1}]`, new: `[{k: a, l: 2, v: 1}, {k: a, l: 1, v: 2}]`,
		want: []string{`spec[1].v: Invalid value: 2: failed rule: self >= oldSelf`}},
	{name: "transition of items without keys", schema: `{type: array, items: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}`, old: `[3]`, new: `[1]`},
	{name: "transition in a map", schema: `{type: object, additionalProperties: {type: integer, x-kubernetes-validations: [{rule: self >= oldSelf}]}}`, old: `{a: 3, b: 1}`, new: `{a: 2, b: 1, c: 0}`,
		want: []string{`spec[a]: Invalid value: 2: failed rule: self >= oldSelf`}},
	{name: "transition of the whole", schema: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self == oldSelf, message: immutable}]}`, old: `{a: 1}`, new: `{a: 2}`,
		want: []string{`spec: Invalid value: immutable`}},

	{name: "unchanged is excused", schema: `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}, b: {type: integer}}}`, old: `{a: 1, b: 1}`, new: `{a: 1, b: 2}`,
		warnings: []string{`spec.a: Invalid value: 1: small`}},
	{name: "changed is not excused", schema: `{type: object, properties: {a: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}}}`, old: `{a: 1}`, new: `{a: 0}`,
		want: []string{`spec.a: Invalid value: 0: small`}},
	{name: "transitions are not excused", schema: `{type: integer, x-kubernetes-validations: [{rule: self > oldSelf}]}`, old: `1`, new: `1`,
		want: []string{`spec: Invalid value: 1: failed rule: self > oldSelf`}},
	{name: "unchanged item with key", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}}}}`,
		old: `[{k: a, v: 0}]`, new: `[{k: b, v: 0}, {k: a, v: 0}]`,
		want: []string{`spec[0].v: Invalid value: 0: small`}, warnings: []string{`spec[1].v: Invalid value: 0: small`}},
	{name: "items of an unchanged list", schema: `{type: array, items: {type: object, properties: {v: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}}}}`,
		old: `[{v: 0}]`, new: `[{v: 0}]`, warnings: []string{`spec[0].v: Invalid value: 0: small`}},
	{name: "deep in items of an unchanged list", schema: `{type: array, items: {type: object, properties: {v: {type: object, properties: {w: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}}}}}}`,
		old: `[{v: {w: 0}}]`, new: `[{v: {w: 0}}]`, warnings: []string{`spec[0].v.w: Invalid value: 0: small`}},
	{name: "item of an unchanged list", schema: `{type: array, items: {type: integer, x-kubernetes-validations: [{rule: self > 1, message: small}]}}`,
		old: `[0]`, new: `[0]`, warnings: []string{`spec[0]: Invalid value: 0: small`}},
	{name: "excused however explained", schema: `{type: integer, x-kubernetes-validations: [{rule: self > 1, reason: FieldValueForbidden, messageExpression: "'small'"}]}`, old: `1`, new: `1`,
		warnings: []string{`spec: Forbidden: small`}},

	{name: "below allOf", schema: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "true"}], allOf: [{x-kubernetes-validations: [{rule: self.a > 1}], properties: {a: {x-kubernetes-validations: [{rule: self > 2}]}}}]}`,
		new: `{a: 1}`, want: []string{`spec: Invalid value: failed rule: self.a > 1`, `spec.a: Invalid value: 1: failed rule: self > 2`}},
	{name: "below allOf only", schema: `{type: object, properties: {a: {type: integer}}, allOf: [{x-kubernetes-validations: [{rule: self.a > 1}]}]}`, new: `{a: 1}`},
	{name: "below allOf by the value above", schema: `{type: object, properties: {a: {type: integer}, b: {type: integer}}, x-kubernetes-validations: [{rule: "true"}], allOf: [{properties: {a: {x-kubernetes-validations: [{rule: self > 2}]}}}]}`,
		old: `{a: 1}`, new: `{a: 1, b: 1}`, want: []string{`spec.a: Invalid value: 1: failed rule: self > 2`}},

	{name: "int or string", schema: `{x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "type(self) == int ? self > 1 : self.endsWith('%')"}]}`, new: `5`},
	{name: "int or string as string", schema: `{x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "type(self) == int ? self > 1 : self.endsWith('%')"}]}`, new: `"5"`,
		want: []string{`spec: Invalid value: "5": failed rule: type(self) == int ? self > 1 : self.endsWith('%')`}},
	{name: "int or string mistaken", schema: `{x-kubernetes-int-or-string: true, x-kubernetes-validations: [{rule: "self < 3"}]}`, new: `"5"`,
		want: []string{`spec: Invalid value: "": 'no such overload': call arguments did not match a supported operator, function or macro signature for rule: self < 3`}},
	{name: "null in an object is absent", schema: `{type: object, properties: {a: {type: integer, nullable: true}}, x-kubernetes-validations: [{rule: has(self.a)}]}`, new: `{a: null}`,
		want: []string{`spec: Invalid value: failed rule: has(self.a)`}},
	{name: "null in a map", schema: `{type: object, additionalProperties: {type: integer, nullable: true}, x-kubernetes-validations: [{rule: "dyn(self.a) == null && 'a' in self"}]}`, new: `{a: null}`},
	{name: "null in a list", schema: `{type: array, items: {type: integer, nullable: true}, x-kubernetes-validations: [{rule: "dyn(self[0]) == null"}]}`, new: `[null]`},
	{name: "absent", schema: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self.a == 1}]}`, new: `{}`,
		want: []string{`spec: Invalid value: "object": no such key: a evaluating rule: self.a == 1`}},
	{name: "optional field", schema: `{type: object, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: "self.?a.orValue(7) == 7"}]}`, new: `{}`},
	{name: "division by zero", schema: `{type: integer, x-kubernetes-validations: [{rule: 1 / self == 1}]}`, new: `0`,
		want: []string{`spec: Invalid value: "integer": division by zero evaluating rule: 1 / self == 1`}},
	{name: "index out of bounds", schema: `{type: array, items: {type: integer}, x-kubernetes-validations: [{rule: "self[0] == 1", message: first}]}`, new: `[]`,
		want: []string{`spec: Invalid value: "array": index out of bounds: 0 evaluating rule: first`}},

	{name: "date", schema: `{type: string, format: date, x-kubernetes-validations: [{rule: "self.getFullYear() == 2020 && self < timestamp('2020-02-01T00:00:00Z')"}]}`, new: `"2020-01-31"`},
	{name: "date and time", schema: `{type: string, format: date-time, x-kubernetes-validations: [{rule: "self.getHours() == 10"}]}`, new: `"2020-01-31T10:00:00Z"`},
	{name: "duration", schema: `{type: string, format: duration, x-kubernetes-validations: [{rule: "self == duration('1h30m')"}]}`, new: `90m`},
	{name: "bytes", schema: `{type: string, format: byte, x-kubernetes-validations: [{rule: "self == b'hello'"}]}`, new: `aGVsbG8=`},
	{name: "whole numbers are numbers", schema: `{type: number, x-kubernetes-validations: [{rule: self == 1.0}]}`, new: `1`},
	{name: "fractions as they are", schema: `{type: number, x-kubernetes-validations: [{rule: self > 1.5}]}`, new: `1.5`,
		want: []string{`spec: Invalid value: 1.5: failed rule: self > 1.5`}},

	{name: "embedded resource", schema: `{type: object, x-kubernetes-embedded-resource: true, x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "self.kind == 'Pod' && self.apiVersion == 'v1' && self.metadata.name == 'a' && !has(self.metadata.generateName)"}]}`,
		new: `{apiVersion: v1, kind: Pod, metadata: {name: a, labels: {a: b}}, other: 1}`},
	{name: "embedded resource below", schema: `{type: object, properties: {r: {type: object, x-kubernetes-embedded-resource: true, properties: {x: {type: integer}}}}, x-kubernetes-validations: [{rule: "self.r.metadata.name == 'a' && self.r.x == 1"}]}`,
		new: `{r: {apiVersion: v1, kind: Pod, metadata: {name: b}, x: 1}}`, want: []string{`spec: Invalid value: failed rule: self.r.metadata.name == 'a' && self.r.x == 1`}},
	{name: "expressions do not see unknown fields, but compare them", schema: `{type: object, x-kubernetes-preserve-unknown-fields: true, properties: {a: {type: integer}}, x-kubernetes-validations: [{rule: self == oldSelf}]}`,
		old: `{a: 1, x: 1}`, new: `{a: 1, x: 2}`, want: []string{`spec: Invalid value: failed rule: self == oldSelf`}},
	{name: "escaped names", schema: `{type: object, properties: {x-y: {type: integer}, a.b: {type: integer}, a/b: {type: integer}, namespace: {type: integer}, __x: {type: integer}}, x-kubernetes-validations: [{rule: self.x__dash__y + self.a__dot__b + self.a__slash__b + self.__namespace__ + self.__underscores__x == 15}, {rule: self.namespace == 4}]}`,
		new: `{x-y: 1, a.b: 2, a/b: 3, namespace: 4, __x: 5}`},
	{name: "names that cannot be spelt", schema: `{type: object, properties: {"ünï": {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}`, new: `{"ünï": 1}`,
		want: []string{`spec.ünï: Invalid value: 1: failed rule: self > 1`}},

	{name: "sets compare in any order", schema: `{type: array, x-kubernetes-list-type: set, items: {type: string}, x-kubernetes-validations: [{rule: "self == ['b', 'a'] && (self + ['a', 'c']).size() == 3"}]}`, new: `[a, b]`},
	{name: "lists compare in order", schema: `{type: array, items: {type: string}, x-kubernetes-validations: [{rule: "self == ['b', 'a']", message: x}]}`, new: `[a, b]`,
		want: []string{`spec: Invalid value: x`}},
	{name: "maps as lists", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}, v: {type: integer}}}, x-kubernetes-validations: [{rule: "self == oldSelf && (self + oldSelf).size() == 2"}]}`,
		old: `[{k: a, v: 1}, {k: b, v: 2}]`, new: `[{k: b, v: 2}, {k: a, v: 1}]`},
	{name: "maps as lists with keys that are spelt otherwise", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [x-y], items: {type: object, properties: {x-y: {type: string}, v: {type: integer}}}, x-kubernetes-validations: [{rule: self == oldSelf, message: differs}, {rule: (self + oldSelf).size() == 2, message: size}, {rule: self + oldSelf == oldSelf + self, message: sum}]}`,
		old: `[{x-y: a, v: 1}, {x-y: b, v: 2}]`, new: `[{x-y: b, v: 2}, {x-y: a, v: 1}]`, want: []string{`spec: Invalid value: differs`}},
	{name: "one item with a key that is spelt otherwise", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [namespace], items: {type: object, properties: {namespace: {type: string}}}, x-kubernetes-validations: [{rule: self == oldSelf}]}`,
		old: `[{namespace: a}]`, new: `[{namespace: a}]`},
	{name: "maps as lists with many keys", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [a, b, c, d], items: {type: object, properties: {a: {type: number}, b: {type: number}, c: {type: number}, d: {type: number}}}, x-kubernetes-validations: [{rule: self == oldSelf}]}`,
		old: `[{a: 1, b: 1, c: 1, d: 2}, {a: 1, b: 1, c: 1, d: 1}]`, new: `[{a: 1, b: 1, c: 1, d: 1}, {a: 1, b: 1, c: 1, d: 2}]`},
	{name: "keys of the wrong type are none in sums", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}, x-kubernetes-validations: [{rule: (self + oldSelf).size() == 2}]}`,
		old: `[{k: 3}]`, new: `[{k: 1}, {k: 2}]`},
	{name: "keys that are lists", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}, x-kubernetes-validations: [{rule: self == oldSelf || true}, {rule: (self + oldSelf).size() == 3, message: size}]}`,
		old: `[{k: a}]`, new: `[{k: [a]}]`, want: []string{
			`spec: Invalid value: "array": internal error: runtime error: hash of unhashable type []interface {} evaluating rule: self == oldSelf || true`, `spec: Invalid value: size`}},
	{name: "keys that are objects", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l], items: {type: object, properties: {k: {type: string}, l: {type: string}}}, x-kubernetes-validations: [{rule: self == oldSelf, message: x}]}`,
		old: `[{k: a, l: {}}]`, new: `[{k: a, l: b}]`, want: []string{`spec: Invalid value: "array": internal error: runtime error: hash of unhashable type map[string]interface {} evaluating rule: x`}},
	{name: "items before a key that is a list", schema: `{type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k], items: {type: object, properties: {k: {type: string}}}, x-kubernetes-validations: [{rule: self == oldSelf, message: first}, {rule: self == oldSelf, message: second}, {rule: self == self, message: third}]}`,
		old: `[{k: a}, {k: a}]`, new: `[{k: a}, {k: [a]}]`, want: []string{`spec: Invalid value: "array": internal error: runtime error: hash of unhashable type []interface {} evaluating rule: first`,
			`spec: Invalid value: "array": internal error: runtime error: hash of unhashable type []interface {} evaluating rule: third`}},

	{name: "libraries", schema: `{type: string, x-kubernetes-validations: [
		{rule: "url('https://' + self + ':80/x').getHostname() == self"}, {rule: "ip(self).family() == 4 && isIP(self) && cidr('10.0.0.0/8').containsIP(self)"},
		{rule: "quantity('1k').isGreaterThan(quantity('1'))"}, {rule: "semver('1.2.3').major() == 1"}, {rule: "!format.named('dns1123Label').value().validate(self).hasValue()", message: no label},
		{rule: "self.find('[0-9]+') == '10' && self.findAll('[0-9]+').size() == 4"}, {rule: "sets.contains([1, 2], [1]) && [1, 2].isSorted() && [1, 2].sum() == 3 && [1, 1].distinct() == [1]"},
		{rule: "self.split('.').join('-').replace('-', '').lowerAscii() == '10001'"}, {rule: "self.split('.').all(i, p, i > 3 || p != '')"}, {rule: "'%s'.format([self]) == self"},
		{rule: "[1, 2, 3].transformList(i, v, v * i).exists(x, x == 6)"}, {rule: "optional.of(self).value() == self"}, {rule: "self.matches('^10[.]')"}]}`, new: `10.0.0.1`,
		want: []string{`spec: Invalid value: "10.0.0.1": no label`}},

	{name: "does not compile", schema: `{type: integer, x-kubernetes-validations: [{rule: "self >"}, {rule: "self > 'a'"}, {rule: "self + 1"}]}`, new: `1`,
		want: []string{
			"spec: Invalid value: \"integer\": rule compile error: compilation failed: ERROR: <input>:1:7: Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}\n | self >\n | ......^",
			"spec: Invalid value: \"integer\": rule compile error: compilation failed: ERROR: <input>:1:6: found no matching overload for '_>_' applied to '(int, string)'\n | self > 'a'\n | .....^",
			`spec: Invalid value: "integer": rule compile error: cel expression must evaluate to a bool`,
		}},
	{name: "nothing to see", schema: `{type: object, properties: {a: {x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "false"}]}, b: {type: array, items: {x-kubernetes-preserve-unknown-fields: true, x-kubernetes-validations: [{rule: "false"}]}, x-kubernetes-validations: [{rule: "false"}]}}, x-kubernetes-validations: [{rule: "true"}]}`, new: `{a: 1, b: [1]}`},

	// The cost of a text search is a hundredth of the product of the lengths.
	{name: "one rule costs too much", schema: `{type: string, x-kubernetes-validations: [{rule: "!self.contains(self + 'b')"}, {rule: "false"}]}`, new: letters(11_000),
		want: []string{`spec: Invalid value: "string": 'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: !self.contains(self + 'b')`}},
	{name: "all rules cost too much", schema: `{type: array, items: {type: string, x-kubernetes-validations: [{rule: "!self.contains(self + 'b')"}]}}`, new: "[" + strings.Repeat(letters(9500)+", ", 20) + "]",
		want: []string{`spec[11]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run`}},
	{name: "an explanation costs too much", schema: `{type: string, x-kubernetes-validations: [{rule: "false", messageExpression: "string(self.contains(self + 'b'))"}, {rule: "false"}]}`, new: letters(11_000),
		want: []string{`spec: Invalid value: "string": no further validation rules will be run due to call cost exceeds limit for messageExpression: "string(self.contains(self + 'b'))"`}},
	{name: "rules and explanations cost too much", schema: `{type: array, items: {type: string, x-kubernetes-validations: [{rule: "false", messageExpression: "string(self.contains(self + 'b'))"}]}, x-kubernetes-validations: [{rule: "self.size() > 30", message: many}]}`, new: "[" + strings.Repeat(letters(9500)+", ", 12) + "]",
		want: append(append([]string{`spec: Invalid value: many`}, explained(11)...), `spec[11]: Invalid value: "string": messageExpression evaluation failed due to running out of cost budget, no further validation rules will be run`)},
}

// letters returns a text of n letters.
func letters(n int) string { return strings.Repeat("a", n) }

// explained returns the errors about n items that are long texts.
func explained(n int) []string {
	errs := make([]string, n)
	for i := range errs {
		errs[i] = fmt.Sprintf("spec[%d]: Invalid value: %q: false", i, letters(9500))
	}
	return errs
}

func TestEvaluate(t *testing.T) {
	for _, test := range ruleCases {
		t.Run(test.name, func(t *testing.T) {
			s := parseSchema(t, "{type: object, properties: {spec: "+strings.ReplaceAll(test.schema, "\n\t\t", " ")+"}}")
			p := mustCompile(t, s)
			j, err := newJudge(t, s, false)
			if err != nil {
				t.Fatal(err)
			}
			obj, old := resourceWith(t, test.new), map[string]any(nil)
			if test.old != "" {
				old = resourceWith(t, test.old)
			}
			check(t, p, obj, old, test.want, test.warnings)
			if err := compareRules("judge", p, j, obj, old, nil); err != nil {
				t.Error(err)
			}
		})
	}
}

func resourceWith(t *testing.T, spec string) map[string]any {
	t.Helper()
	return parseYAML(t, "{apiVersion: example.com/v1, kind: Thing, metadata: {name: thing}, spec: "+spec+"}").(map[string]any)
}

func check(t *testing.T, p *Program, obj, old map[string]any, want, warnings []string) {
	t.Helper()
	var got, heard []string
	for _, err := range p.Evaluate(context.Background(), obj, old, nil, func(w string) { heard = append(heard, w) }) {
		got = append(got, err.Error())
	}
	if !slices.Equal(got, want) {
		t.Errorf("errors\n got %q\nwant %q", got, want)
	}
	if !slices.Equal(heard, warnings) {
		t.Errorf("warnings\n got %q\nwant %q", heard, warnings)
	}
	if len(warnings) > 0 {
		p.Evaluate(context.Background(), obj, old, nil, nil)
	}
}

// TestEvaluateRoot checks the special cases of the root.
func TestEvaluateRoot(t *testing.T) {
	const schema = `{type: object, properties: {spec: {type: object, properties: {a: {type: integer}}}},
		x-kubernetes-validations: [{rule: "self.metadata.name == 'thing' && !has(self.metadata.generateName) && self.kind == 'Thing' && self.apiVersion == 'example.com/v1'"},
			{rule: "self.spec.a == 1", message: one}]}`
	s := parseSchema(t, strings.ReplaceAll(schema, "\n", " "))
	p := mustCompile(t, s)
	check(t, p, resourceWith(t, "{a: 1}"), nil, nil, nil)
	check(t, p, resourceWith(t, "{a: 2}"), nil, []string{"<nil>: Invalid value: one"}, nil)
	// The root never counts as unchanged, because the schema does not specify its metadata.
	check(t, p, resourceWith(t, "{a: 2}"), resourceWith(t, "{a: 2}"), []string{"<nil>: Invalid value: one"}, nil)
}

// TestEvaluateBlocked checks which errors prevent the evaluation of rules.
func TestEvaluateBlocked(t *testing.T) {
	const schema = `{type: object, properties: {spec: {type: object, required: [r], properties: {r: {type: integer}, t: {type: string, maxLength: 2, minLength: 1},
		e: {type: string, enum: [a]}, l: {type: array, maxItems: 1, items: {type: integer}}, n: {type: integer, minimum: 1}, f: {type: string, format: date}},
		x-kubernetes-validations: [{rule: "false", message: seen}]}}}`
	p := mustCompile(t, parseSchema(t, strings.ReplaceAll(schema, "\n\t\t", " ")))
	for spec, blocked := range map[string]bool{
		"{r: 1}": false, "{r: 1, n: 0}": false, "{r: 1, t: ''}": false,
		"{}": true, "{r: a}": true, "{r: 1, t: abc}": true, "{r: 1, e: b}": true, "{r: 1, l: [1, 2]}": true, "{r: 1, f: x}": true,
	} {
		obj := resourceWith(t, spec)
		errs := p.Evaluate(context.Background(), obj, nil, p.Validate(context.Background(), obj), nil)
		want := "spec: Invalid value: seen"
		if blocked {
			want = notChecked
		}
		if len(errs) != 1 || errs[0].Error() != want {
			t.Errorf("%s: got %v, want %s", spec, errs, want)
		}
	}
}

// manyItems returns n items with two keys, each of which violates the rule of manySchema.
func manyItems(n int) []any {
	list := make([]any, n)
	for i := range list {
		list[i] = map[string]any{"k": fmt.Sprint(i), "l": "x", "v": int64(0)}
	}
	return list
}

const manySchema = `{type: object, properties: {spec: {type: array, LIST items: {type: object,
	properties: {k: {type: string}, l: {type: string}, v: {type: integer, x-kubernetes-validations: [{rule: self > 1}]}}}}}}`

func manyProgram(tb testing.TB, list string) *Program {
	tb.Helper()
	return mustCompile(tb, parseSchema(tb, strings.NewReplacer("LIST", list, "\n\t", " ").Replace(manySchema)))
}

const keyedBySome = "x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [k, l],"

// TestEvaluateMany checks that the cost of excusing many items is linear in their number.
func TestEvaluateMany(t *testing.T) {
	p := manyProgram(t, keyedBySome)
	work := func(n int) float64 {
		obj := map[string]any{"spec": manyItems(n)}
		old := clone(obj).(map[string]any)
		return testing.AllocsPerRun(1, func() {
			excused := 0
			if errs := p.Evaluate(context.Background(), obj, old, nil, func(string) { excused++ }); len(errs) > 0 || excused != n {
				t.Fatalf("%d excused, errors %v", excused, errs)
			}
		})
	}
	few, many := work(800), work(8000)
	if many > 20*few {
		t.Errorf("%.0f allocations for 800 items, %.0f for 8000", few, many)
	}
}

// TestEvaluateComparesOnce changes the old list after the first item of an atomic list has been
// excused: if the list were compared again for the other items, these would not be excused.
func TestEvaluateComparesOnce(t *testing.T) {
	p := manyProgram(t, "")
	obj := map[string]any{"spec": manyItems(10)}
	old := clone(obj).(map[string]any)
	excused := 0
	errs := p.Evaluate(context.Background(), obj, old, nil, func(string) {
		excused++
		old["spec"].([]any)[0] = "other"
	})
	if len(errs) > 0 || excused != 10 {
		t.Errorf("%d of 10 items excused, errors %v", excused, errs)
	}
}

// TestEvaluateAtOnce evaluates conditions that are not compiled yet in many goroutines.
func TestEvaluateAtOnce(t *testing.T) {
	s, obj := ruled(t)
	p := mustCompile(t, s)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if errs := p.Evaluate(context.Background(), obj, obj, nil, nil); len(errs) > 0 {
					t.Error(errs)
				}
			}
		})
	}
	group.Wait()
}
