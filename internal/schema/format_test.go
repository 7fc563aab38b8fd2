package schema

import (
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/test/seeds"

	"k8s.io/kube-openapi/pkg/validation/strfmt"
)

// TestShortcuts checks that the fast paths accept no strings that the full checks reject.
func TestShortcuts(t *testing.T) {
	seed := seeds.Of(t)
	g := newGenerator(seed)
	for _, test := range []struct {
		name     string
		quick    func(string) bool
		full     func(string) bool
		examples []string
		alphabet string
	}{
		{"date-time", plainDateTime, strfmt.IsDateTime,
			[]string{"2006-01-02T15:04:05Z", "2026-12-28T23:59:59Z", "1999-02-29T24:00:60Z"}, "0123456789-T:Z. "},
		{"hostname", plainHostname, strfmt.IsHostname,
			[]string{"localhost", "a.example", "a-1.b2.example.com", "1", "1.2", "x.1a", strings.Repeat("a", 63), strings.Repeat("a", 64),
				strings.Repeat("a", 63) + ".com", "a." + strings.Repeat("c", 63), strings.Repeat("ab.", 85) + "com"}, "abz09-._é"},
	} {
		accepted := 0
		for i := range 20000 {
			s := []byte(test.examples[i%len(test.examples)])
			if i >= len(test.examples) {
				for range 1 + g.IntN(3) {
					switch at := g.IntN(len(s)); g.IntN(3) {
					case 0:
						s[at] = test.alphabet[g.IntN(len(test.alphabet))]
					case 1:
						s = append(s[:at:at], append([]byte{test.alphabet[g.IntN(len(test.alphabet))]}, s[at:]...)...)
					case 2:
						if len(s) > 1 {
							s = append(s[:at:at], s[at+1:]...)
						}
					}
				}
			}
			if test.quick(string(s)) {
				accepted++
				if !test.full(string(s)) {
					t.Errorf("%s: %q is accepted", test.name, s)
				}
			}
		}
		if accepted < 300 {
			t.Errorf("%s: only %d strings accepted", test.name, accepted)
		}
	}
}

// TestFormats checks that exactly the formats that Kubernetes supports are known.
func TestFormats(t *testing.T) {
	for _, name := range strings.Fields(`bsonobjectid uri email hostname ipv4 ipv6 cidr mac uuid uuid3 uuid4 uuid5 isbn isbn10 isbn13
		creditcard ssn hexcolor rgbcolor byte password date duration datetime date-time k8s-short-name k8s-long-name`) {
		f := formatFor(name, typeString)
		if f == nil {
			t.Errorf("%s is unknown", name)
			continue
		}
		for _, s := range strings.Fields(`a A.b 10.0.0.1 ::1 10.0.0.0/8 aa:bb:cc:dd:ee:ff 6ba7b810-9dad-11d1-80b4-00c04fd430c8
			0321751043 978-0321751041 4111111111111111 111-22-3333 #fff rgb(1,2,3) aGk= 2020-01-31 3h 2020-01-31T00:00:00Z
			2020-01-31t00:00:00.5+01:00 507f1f77bcf86cd799439011 a@b.c http://a/b foo-bar.`) {
			if got, want := f.valid(s), strfmt.Default.Validates(name, s); got != want {
				t.Errorf("%s: %q: got %v, want %v", name, s, got, want)
			}
		}
	}
	for _, name := range []string{"", "int32", "float", "nonsense", "binary"} {
		if formatFor(name, typeString) != nil {
			t.Errorf("%s is known", name)
		}
	}
}
