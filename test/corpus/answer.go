package corpus

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// An answer is a response of the server.
type answer struct {
	code   int
	header http.Header
	body   []byte
}

// alwaysShown are the headers that clients depend on.
var alwaysShown = []string{"Content-Type", "Content-Encoding", "Warning", "Retry-After", "Location", "Allow", "WWW-Authenticate"}

func readAnswer(r *http.Response) (*answer, error) {
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("read answer: %w", err)
	}
	if r.Header.Get("Content-Encoding") == "gzip" {
		unzip, err := gzip.NewReader(bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		if body, err = io.ReadAll(unzip); err != nil {
			return nil, err
		}
	}
	return &answer{code: r.StatusCode, header: r.Header, body: body}, nil
}

// decode decodes the body by its media type. Text stays a string, unless it is a JSON object: the
// index of OpenAPI documents is one, but is served as text/plain.
func (a *answer) decode() (any, error) {
	if len(a.body) == 0 {
		return nil, nil
	}
	media, parameters, _ := mime.ParseMediaType(a.header.Get("Content-Type"))
	switch {
	case strings.HasSuffix(media, "json"), media == "text/plain" && a.body[0] == '{':
		return decodeJSON(a.body)
	case strings.HasSuffix(media, "yaml"):
		return decodeYAML(a.body)
	case media == protobufMedia && parameters["stream"] == "":
		return decodeProtobuf(a.body)
	}
	return string(a.body), nil
}

// keep returns the decoded body v with the named headers as fields header-NAME.
func (a *answer) keep(v any, headers []string) any {
	body, is := v.(map[string]any)
	if !is || len(headers) == 0 {
		return v
	}
	body = maps.Clone(body)
	for _, name := range headers {
		body["header-"+name] = a.header.Get(name)
	}
	return body
}

// print formats the response as a script's output.
func (a *answer) print(n *normalizer, p parameters) (string, error) {
	var b strings.Builder
	// Kapok's own warnings, about what it does not support, are not compared with Kubernetes.
	a.header["Warning"] = slices.DeleteFunc(a.header["Warning"], func(w string) bool { return strings.HasPrefix(w, `299 - "kapok: `) })
	fmt.Fprintf(&b, "%d %s\n", a.code, http.StatusText(a.code))
	if p.warnings {
		slices.Sort(a.header["Warning"])
	}
	a.printHeaders(&b, n, p.headers)
	if len(p.show) == 1 {
		switch p.show[0] {
		case "none":
			return b.String(), nil
		case "raw":
			b.WriteString(endLine(n.text(string(a.body))))
			return b.String(), nil
		}
	}
	v, err := a.decode()
	if err != nil {
		return "", fmt.Errorf("decode %s: %w\n%s", a.header.Get("Content-Type"), err, a.body)
	}
	if text, is := v.(string); is {
		b.WriteString(endLine(n.text(text)))
		return b.String(), nil
	}
	if p.unordered {
		sortCauses(v)
	}
	if v != nil {
		printValue(&b, n.value(v, p.managed), p.show)
	}
	return b.String(), nil
}

func (a *answer) printHeaders(b *strings.Builder, n *normalizer, more []string) {
	for _, name := range alwaysShown {
		for _, value := range a.header.Values(name) {
			fmt.Fprintf(b, "%s: %s\n", name, n.text(value))
		}
	}
	for _, name := range more {
		values := a.header.Values(name)
		if len(values) == 0 {
			fmt.Fprintf(b, "no %s\n", name)
		}
		for _, value := range values {
			fmt.Fprintf(b, "%s: %s\n", name, n.text(value))
		}
	}
}

// endLine ends text with a newline unless it is empty.
func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
