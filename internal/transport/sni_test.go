package transport

import (
	"crypto/tls"
	"strings"
	"testing"
)

// TestNamedCertificates checks which certificate a client gets by the name that it connects to.
func TestNamedCertificates(t *testing.T) {
	n := newNamed([]NamedCertificate{
		{Names: []string{"a.example.com", "*.example.com"}},
		{Names: []string{"a.example.com", "*.b.example.com", "c.example.com"}},
	})
	for i, content := range []string{"one", "two"} {
		next, err := n.with(i, tls.Certificate{Certificate: [][]byte{[]byte(content)}})
		if err != nil {
			t.Fatal(err)
		}
		n = next
	}
	for name, want := range map[string]string{
		"a.example.com": "one", "A.Example.com.": "one", "x.example.com": "one", "c.example.com": "two", "x.b.example.com": "two",
		"example.com": "", "x.y.example.com": "", "": "", "other": "",
	} {
		got := ""
		if cert, err := n.find(&tls.ClientHelloInfo{ServerName: name}); err != nil {
			t.Error(err)
		} else if cert != nil {
			got = string(cert.Certificate[0])
		}
		if got != want {
			t.Errorf("%q: certificate %q, want %q", name, got, want)
		}
	}
	if _, err := newNamed([]NamedCertificate{{}}).with(0, tls.Certificate{Certificate: [][]byte{{1}}}); err == nil {
		t.Error("a certificate without names was accepted")
	}
	for _, tc := range []struct {
		c   NamedCertificate
		err string
	}{
		{NamedCertificate{CertFile: "c"}, `CertFile "c" and KeyFile "": set both`},
		{NamedCertificate{CertFile: "c", KeyFile: "k", Names: []string{"A"}}, `the name "A"`},
		{NamedCertificate{CertFile: "c", KeyFile: "k", Names: []string{"a.*"}}, `the name "a.*"`},
	} {
		o := ServingOptions{Named: []NamedCertificate{tc.c}}
		if err := o.Validate(); err == nil || !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%+v: %v, want %s", tc.c, err, tc.err)
		}
	}
}
