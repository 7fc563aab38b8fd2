package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// A document is an object to be converted and where it comes from.
type document struct {
	source string // file
	number int    // of the document within, from 1
	item   int    // of the item within a list, from 1; 0 for an object outside of a list
	gvk    schema.GroupVersionKind
	name   string
	data   []byte // JSON
}

func (d document) String() string {
	text := fmt.Sprintf("%s: document %d", d.source, d.number)
	if d.item > 0 {
		text += fmt.Sprintf(", item %d", d.item)
	}
	if d.gvk.Kind != "" && d.name != "" {
		text += fmt.Sprintf(" (%s %s)", d.gvk.Kind, d.name)
	}
	return text
}

// manifestExtensions are the names of files that are read where a directory is given.
var manifestExtensions = []string{".json", ".yaml", ".yml"}

// manifests are the objects of files, directories and the standard input; lists are taken apart.
type manifests struct {
	documents []document
	findings  findings // outside of the objects
	files     int
	stream    bool // the standard input is among them
}

// single reports that all objects come from one file, so that a single object is printed without a
// list.
func (m *manifests) single() bool { return m.files == 1 && !m.stream }

// readManifests reads all that paths stand for.
func readManifests(paths []string, recursive bool, stdin io.Reader) (*manifests, error) {
	m := &manifests{}
	for _, path := range paths {
		if path == "-" {
			m.stream = true
			if err := m.read("standard input", stdin); err != nil {
				return nil, err
			}
			continue
		}
		files, err := manifestFiles(path, recursive)
		if err != nil {
			return nil, err
		}
		for _, file := range files {
			if err := m.readFile(file); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// manifestFiles returns the files of a path.
func manifestFiles(path string, recursive bool) (files []string, err error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return nil, fmt.Errorf("%s: URLs are not supported: save the manifest to a file first", path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return []string{path}, nil
	}
	err = filepath.WalkDir(path, func(at string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && at != path && !recursive:
			return filepath.SkipDir
		case !entry.IsDir() && slices.Contains(manifestExtensions, filepath.Ext(at)):
			files = append(files, at)
		}
		return nil
	})
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("%s: the directory contains no file with an extension of %s", path, strings.Join(manifestExtensions, ", "))
	}
	return files, err
}

func (m *manifests) readFile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m.files++
	return m.read(path, f)
}

// read reads YAML or JSON.
func (m *manifests) read(source string, r io.Reader) error {
	stream, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	texts, isJSON := splitJSON(stream)
	if !isJSON {
		if texts, err = splitYAML(stream); err != nil {
			return fmt.Errorf("%s: %w", source, err)
		}
	}
	for i, text := range texts {
		d := document{source: source, number: i + 1, data: text}
		var repeated []error
		if !json.Valid(text) {
			if d.data, err = yaml.YAMLToJSON(text); err != nil {
				return fmt.Errorf("%s: %w", d, err)
			}
			if _, err := yaml.YAMLToJSONStrict(text); err != nil {
				repeated = repeatedKeys(err)
			}
		}
		if d.data = bytes.TrimSpace(d.data); len(d.data) == 0 || string(d.data) == "null" {
			continue // between two separators
		}
		if err := d.open(); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
		m.findings.add(d, repeated...)
		if err := m.add(d); err != nil {
			return fmt.Errorf("%s: %w", d, err)
		}
	}
	return nil
}

// splitJSON splits a sequence of JSON objects.
func splitJSON(stream []byte) (texts [][]byte, ok bool) {
	if !utilyaml.IsJSONBuffer(stream) {
		return nil, false
	}
	decoder := json.NewDecoder(bytes.NewReader(stream))
	for {
		var text json.RawMessage
		switch err := decoder.Decode(&text); {
		case errors.Is(err, io.EOF):
			return texts, true
		case err != nil:
			return nil, false // maybe YAML, of which JSON is a part
		}
		texts = append(texts, text)
	}
}

// splitYAML takes documents apart.
func splitYAML(stream []byte) (texts [][]byte, err error) {
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(stream)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return texts, nil
		}
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
}

// open determines the kind of the document.
func (d *document) open() error {
	var head struct {
		runtime.TypeMeta
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if d.data[0] != '{' {
		return errors.New("not a Kubernetes object: want fields like apiVersion and kind")
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.data, &head); err != nil {
		return errors.New("not a Kubernetes object: apiVersion, kind and metadata.name must be strings")
	}
	d.gvk, d.name = schema.FromAPIVersionAndKind(head.APIVersion, head.Kind), head.Metadata.Name
	if d.gvk.Kind == "" {
		return errors.New("not a Kubernetes object: kind is missing")
	}
	if d.gvk.Version == "" {
		return errors.New("not a Kubernetes object: apiVersion is missing")
	}
	return nil
}

// add adds a document or, if it is a list, its items. Items of a list of one kind may omit
// apiVersion and kind.
func (m *manifests) add(d document) error {
	var list struct {
		metav1.TypeMeta
		metav1.ListMeta `json:"metadata"`
		Items           *[]json.RawMessage `json:"items"`
	}
	if !strings.HasSuffix(d.gvk.Kind, "List") {
		m.documents = append(m.documents, d)
		return nil
	}
	found, err := kjson.UnmarshalStrict(d.data, &list)
	if err != nil {
		return fmt.Errorf("items of a %s must be an array of objects", d.gvk.Kind)
	}
	if list.Items == nil {
		m.documents = append(m.documents, d) // a kind whose name ends so
		return nil
	}
	m.findings.add(d, found...)
	for i, item := range *list.Items {
		in := document{source: d.source, number: d.number, item: i + 1, data: typed(item, d.gvk)}
		if err := in.open(); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
		if err := m.add(in); err != nil {
			return fmt.Errorf("item %d: %w", i+1, err)
		}
	}
	return nil
}

// typed returns an item of a list of one kind with its kind. All else stays as it is written.
func typed(item []byte, list schema.GroupVersionKind) []byte {
	kind := strings.TrimSuffix(list.Kind, "List")
	var fields map[string]json.RawMessage
	if kind == "" || json.Unmarshal(item, &fields) != nil || fields == nil || fields["kind"] != nil || fields["apiVersion"] != nil {
		return item
	}
	text := fmt.Appendf(nil, `{"apiVersion":%q,"kind":%q`, list.GroupVersion(), kind)
	if len(fields) > 0 {
		text = append(text, ',')
	}
	return append(text, bytes.TrimSpace(item)[1:]...)
}
