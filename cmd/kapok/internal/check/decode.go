package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// A document is one of a text, and the number of lines before it.
type document struct {
	text  []byte
	lines int
}

// separator is a line between two documents of YAML.
var separator = regexp.MustCompile(`(?m)^---(?:[ \t].*)?\r?$\n?`)

// documentsOf returns the documents of a text, which is YAML, or JSON objects one after the other.
func documentsOf(data []byte) []document {
	if trimmed := bytes.TrimSpace(data); len(trimmed) > 0 && trimmed[0] == '{' {
		if all, ok := objectsOf(trimmed); ok {
			return all
		}
	}
	var all []document
	begin := 0
	add := func(end int) {
		all = append(all, document{data[begin:end], bytes.Count(data[:begin], []byte("\n"))})
	}
	for _, at := range separator.FindAllIndex(data, -1) {
		add(at[0])
		begin = at[1]
	}
	add(len(data))
	return all
}

// objectsOf returns JSON objects, if there is nothing else in a text.
func objectsOf(data []byte) (all []document, ok bool) {
	d := json.NewDecoder(bytes.NewReader(data))
	for {
		before := d.InputOffset()
		var text json.RawMessage
		switch err := d.Decode(&text); {
		case errors.Is(err, io.EOF):
			return all, true
		case err != nil:
			return nil, false
		}
		all = append(all, document{text, bytes.Count(data[:before], []byte("\n"))})
	}
}

// decode returns the objects of a text, also those in lists, and the errors of documents that are
// none.
func decode(file string, data []byte) (all []object, errs []error) {
	for _, d := range documentsOf(data) {
		found, err := d.objects()
		if err != nil {
			errs = append(errs, err)
		}
		for _, u := range found {
			all = append(all, object{file, u})
		}
	}
	return all, errs
}

// errNoManifest is the error of what is no object.
var errNoManifest = errors.New("an object has no kind or no apiVersion: this is no manifest")

func (d *document) objects() ([]*unstructured.Unstructured, error) {
	text, err := yaml.YAMLToJSONStrict(d.text)
	if err != nil {
		return nil, d.inFile(err)
	}
	var content any
	if err := utiljson.Unmarshal(text, &content); err != nil { // keeps integers exact
		return nil, err
	}
	if content == nil {
		return nil, nil
	}
	object, ok := content.(map[string]any)
	if !ok {
		return nil, errNoManifest
	}
	u := &unstructured.Unstructured{Object: object}
	if u.GetKind() == "" || u.GetAPIVersion() == "" {
		return nil, errNoManifest
	}
	items, isList := object["items"].([]any)
	if !isList || !strings.HasSuffix(u.GetKind(), "List") {
		return []*unstructured.Unstructured{u}, nil
	}
	var all []*unstructured.Unstructured
	for i, item := range items {
		object, ok := item.(map[string]any)
		if !ok {
			return all, fmt.Errorf("items[%d] of the %s is no object", i, u.GetKind())
		}
		one := &unstructured.Unstructured{Object: object}
		if kind := strings.TrimSuffix(u.GetKind(), "List"); kind != "" && one.GetKind() == "" { // as a typed list leaves it out
			one.SetAPIVersion(u.GetAPIVersion())
			one.SetKind(kind)
		}
		if one.GetKind() == "" || one.GetAPIVersion() == "" {
			return all, fmt.Errorf("items[%d]: %w", i, errNoManifest)
		}
		all = append(all, one)
	}
	return all, nil
}

// lineNumber matches the line in errors of the YAML decoder.
var lineNumber = regexp.MustCompile(`\bline (\d+)`)

// inFile makes the line in an error that of the file.
func (d *document) inFile(err error) error {
	text := lineNumber.ReplaceAllStringFunc(err.Error(), func(found string) string {
		n, _ := strconv.Atoi(strings.TrimPrefix(found, "line ")) // digits
		return fmt.Sprint("line ", n+d.lines)
	})
	return errors.New(text)
}
