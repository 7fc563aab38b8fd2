package hostile

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

var rewrite = flag.Bool("rewrite", false, "record the answers")

// A hostileCase is a request and its expected response.
type hostileCase struct {
	name, user    string
	request       []string // the request line and the headers
	body          string
	hasBody       bool
	code          int
	fragment      string
	line          int // of want
	setsItsLength bool
}

func TestHostile(t *testing.T) {
	server, err := kapok.Start(t.Context(), kapok.Options{Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	target := newTarget(t, server.Address(), config)
	target.prepare(t)
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	count := 0
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(string(data), "\n")
			for _, c := range parse(t, file, lines) {
				count++
				t.Run(c.name, func(t *testing.T) { c.run(t, target, lines) })
			}
			if *rewrite {
				if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
	if count < 150 && flag.Lookup("test.run").Value.String() == "" {
		t.Errorf("only %d cases", count)
	}
}

func parse(t *testing.T, file string, lines []string) []*hostileCase {
	var all []*hostileCase
	var c *hostileCase
	for i, line := range lines {
		name, begins := strings.CutPrefix(line, "== ")
		switch {
		case begins:
			c = &hostileCase{name: name, user: "admin"}
			all = append(all, c)
		case line == "" || line[0] == '#':
		case c == nil:
			t.Fatalf("%s:%d: no case", file, i+1)
		default:
			c.parse(line, i)
		}
	}
	return all
}

func (c *hostileCase) parse(line string, at int) {
	key, value, _ := strings.Cut(line, ": ")
	switch {
	case key == "user":
		c.user = value
	case key == "body":
		c.body, c.hasBody = expand(value), true
	case key == "want" || line == "want:":
		code, fragment, _ := strings.Cut(value, " ")
		c.code, _ = strconv.Atoi(code)
		c.fragment, c.line = fragment, at
	case len(c.request) == 0:
		method, target, _ := strings.Cut(line, " ")
		c.request = append(c.request, method+" "+expand(target)+" HTTP/1.1")
	default:
		c.request = append(c.request, key+": "+expand(value))
		c.setsItsLength = c.setsItsLength || strings.EqualFold(key, "Content-Length") || strings.EqualFold(key, "Transfer-Encoding")
	}
}

// expand expands {"a" "b"*3}; it returns all other texts, including JSON, unchanged.
func expand(text string) string {
	rest, ok := strings.CutPrefix(text, "{")
	if !ok || !strings.HasSuffix(rest, "}") {
		return text
	}
	var b strings.Builder
	for rest = strings.TrimSpace(strings.TrimSuffix(rest, "}")); rest != ""; rest = strings.TrimSpace(rest) {
		literal, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return text
		}
		rest = strings.TrimSpace(rest[len(literal):])
		one, err := strconv.Unquote(literal)
		if err != nil {
			return text
		}
		n := 1
		if times, ok := strings.CutPrefix(rest, "*"); ok {
			digits := len(times) - len(strings.TrimLeft(times, "0123456789"))
			n, _ = strconv.Atoi(times[:digits])
			rest = times[digits:]
		}
		b.WriteString(strings.Repeat(one, n))
	}
	return b.String()
}

func (c *hostileCase) run(t *testing.T, target *target, lines []string) {
	before := target.revision(t)
	answer := target.send(t, c)
	defer func() {
		if after := target.revision(t); after != before {
			t.Errorf("something was written: revision %s, before %s", after, before)
		}
	}()
	if *rewrite {
		text := answer.text
		if len(text) > 70 {
			text = text[:70]
		}
		lines[c.line] = strings.TrimSpace(fmt.Sprintf("want: %d %s", answer.code, text))
		return
	}
	if answer.code != c.code || !strings.Contains(answer.text, c.fragment) {
		t.Errorf("%d %s\nwant %d %s", answer.code, answer.text, c.code, c.fragment)
	}
}

// A target is the server for a client that writes raw requests.
type target struct {
	address string
	// stranger and known are the connections without a certificate, and of the admin.
	stranger, known *tls.Config
	admin           *http.Client
}

func newTarget(t *testing.T, address string, config *rest.Config) *target {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(config.CAData)
	admin, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(admin.CloseIdleConnections)
	certificate, err := tls.X509KeyPair(config.CertData, config.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	host, _, _ := strings.Cut(address, ":")
	stranger := &tls.Config{RootCAs: roots, ServerName: host}
	known := stranger.Clone()
	known.Certificates = []tls.Certificate{certificate}
	return &target{address: address, stranger: stranger, known: known, admin: admin}
}

// prepare creates the objects and the kind of the cases.
func (s *target) prepare(t *testing.T) {
	for path, body := range map[string]string{
		"/api/v1/namespaces/default/configmaps": `{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "there"}, "data": {"a": "b"}}`,
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions": `{"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "things.example.com"},
			"spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "things", "kind": "Thing"}, "versions": [{"name": "v1", "served": true, "storage": true,
			"schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}}}]}}`,
	} {
		r, err := s.admin.Post("https://"+s.address+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Body.Close()
		if r.StatusCode != http.StatusCreated {
			t.Fatalf("%s: %s", path, r.Status)
		}
	}
	// What the server writes by itself must be written before the first case.
	for path, complete := range map[string]func(text string) bool{
		"/apis/example.com/v1/things": func(string) bool { return true },
		"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/things.example.com": func(text string) bool {
			return strings.Contains(text, `"status":"True","type":"Established"`)
		},
		"/api/v1/serviceaccounts": func(text string) bool { return strings.Count(text, `"name":"default"`) == 4 },
		"/api/v1/configmaps":      func(text string) bool { return strings.Count(text, `"name":"kube-root-ca.crt"`) == 4 },
	} {
		s.until(t, path, complete)
	}
	for last := ""; ; {
		now := s.revision(t)
		if now == last {
			return
		}
		last = now
	}
}

// until repeats a GET until it succeeds with a text that is complete.
func (s *target) until(t *testing.T, path string, complete func(text string) bool) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		r, err := s.admin.Get("https://" + s.address + path)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if r.StatusCode == http.StatusOK && complete(string(data)) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: timed out: %s %.2000s", path, r.Status, data)
		}
	}
}

// revision returns that of the whole store.
func (s *target) revision(t *testing.T) string {
	r, err := s.admin.Get("https://" + s.address + "/metrics")
	if err != nil {
		t.Fatalf("the server does not answer: %v", err)
	}
	defer r.Body.Close()
	data, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		if revision, ok := strings.CutPrefix(line, "kapok_revision "); ok {
			return strings.TrimSpace(revision)
		}
	}
	t.Fatal("no revision among the metrics")
	return ""
}

// An answer's text is the message of a Status, or the body; code is 0 if the connection was closed
// without a response.
type answer struct {
	code int
	text string
}

func (s *target) send(t *testing.T, c *hostileCase) answer {
	config := s.stranger
	if c.user == "admin" {
		config = s.known
	}
	conn, err := tls.Dial("tcp", s.address, config)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	head := c.request
	if c.hasBody && !c.setsItsLength {
		head = append(head[:len(head):len(head)], "Content-Length: "+strconv.Itoa(len(c.body)))
	}
	head = append(head[:len(head):len(head)], "Connection: close")
	if !strings.Contains(strings.Join(head, "\n"), "\nHost:") {
		head = append(head, "Host: "+s.address)
	}
	go func() { // the server may respond before it has read everything
		_, _ = io.WriteString(conn, strings.Join(head, "\r\n")+"\r\n\r\n"+c.body)
	}()
	method, _, _ := strings.Cut(c.request[0], " ")
	r, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		return answer{}
	}
	defer r.Body.Close()
	data, _ := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	var status struct{ Kind, Message string }
	text := string(data)
	if json.Unmarshal(data, &status) == nil && status.Kind == "Status" {
		text = status.Message
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	return answer{r.StatusCode, text}
}
