package main

import (
	"errors"
	"strings"

	"github.com/kapok-dev/kapok"

	"github.com/spf13/pflag"
)

// servingFlags adds the flags for the serving certificate, TLS and HTTP/2. Their names are
// kube-apiserver's.
func servingFlags(f *pflag.FlagSet, o *kapok.ServingOptions) {
	f.StringVar(&o.CertFile, "tls-cert-file", "", "file with the certificate to serve with (default: one that the server's own CA signs)")
	f.StringVar(&o.KeyFile, "tls-private-key-file", "", "file with the key of the serving certificate")
	f.Var((*namedCertificates)(&o.Named), "tls-sni-cert-key", "files of a further certificate and its key, CERT,KEY or CERT,KEY:NAME,NAME, for clients that connect to one of the names (default: the names in the certificate), like *.example.com; may be repeated")
	f.StringVar(&o.MinVersion, "tls-min-version", "VersionTLS12", "VersionTLS12 or VersionTLS13")
	f.StringSliceVar(&o.CipherSuites, "tls-cipher-suites", nil, "names of the cipher suites for TLS 1.2 (default ECDHE with AES-GCM or ChaCha20-Poly1305)")
	f.IntSliceVar(&o.CurvePreferences, "tls-curve-preferences", nil, "numbers of the key exchanges of TLS that are allowed, such as 23 (P-256), 29 (X25519) and 4588 (X25519MLKEM768), in any order (default: those of Go)")
	f.BoolVar(&o.SharePort, "permit-port-sharing", false, "let other processes of this user listen on the same port (SO_REUSEPORT)")
	f.BoolVar(&o.NoHTTP2, "disable-http2-serving", false, "serve only HTTP/1.1")
	f.IntVar(&o.MaxStreams, "http2-max-streams-per-connection", 0, "maximum number of concurrent requests of one HTTP/2 connection; 0 means 100")
}

// namedCertificates is a flag for certificates by names, CERT,KEY or CERT,KEY:NAME,NAME.
type namedCertificates []kapok.NamedCertificate

func (n *namedCertificates) Type() string   { return "namedCertKey" }
func (n *namedCertificates) String() string { return strings.Join(n.GetSlice(), ";") }

// Set implements pflag.Value. It adds to earlier values.
func (n *namedCertificates) Set(text string) error { return n.Append(text) }

// Append implements pflag.SliceValue.
func (n *namedCertificates) Append(text string) error {
	certificate, err := namedCertificate(text)
	if err == nil {
		*n = append(*n, certificate)
	}
	return err
}

// Replace implements pflag.SliceValue.
func (n *namedCertificates) Replace(texts []string) error {
	next := namedCertificates{}
	for _, text := range texts {
		if err := next.Append(text); err != nil {
			return err
		}
	}
	*n = next
	return nil
}

// GetSlice implements pflag.SliceValue.
func (n *namedCertificates) GetSlice() []string {
	var texts []string
	for _, c := range *n {
		text := c.CertFile + "," + c.KeyFile
		if len(c.Names) > 0 {
			text += ":" + strings.Join(c.Names, ",")
		}
		texts = append(texts, text)
	}
	return texts
}

func namedCertificate(text string) (c kapok.NamedCertificate, err error) {
	// The last colon, since paths of Windows have one as well; names have none.
	files, names := text, ""
	if colon := strings.LastIndex(text, ":"); colon > strings.LastIndexAny(text, `/\`) {
		files, names = text[:colon], text[colon+1:]
	}
	var both bool
	if c.CertFile, c.KeyFile, both = strings.Cut(files, ","); !both || c.CertFile == "" || c.KeyFile == "" || strings.Contains(c.KeyFile, ",") {
		return c, errors.New("want CERT,KEY or CERT,KEY:NAME,NAME, like web.crt,web.key:*.example.com")
	}
	if names != "" {
		for name := range strings.SplitSeq(names, ",") {
			c.Names = append(c.Names, strings.TrimSpace(name))
		}
	}
	return c, nil
}
