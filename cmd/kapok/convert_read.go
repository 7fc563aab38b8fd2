package main

import (
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

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"
)

// A document is an object to be converted and where it comes from.
type document struct {
	source string // file
	number int    // of the document within, from 1
	item   int    // of the item within a list, from 1; 0 if it is none
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

// readManifests reads all objects of files, directories and the standard input; lists are taken apart. single says that
// what is read is one file, so that an object alone is no list.
func readManifests(paths []string, recursive bool, stdin io.Reader) (all []document, single bool, err error) {
	read := 0
	for _, path := range paths {
		if path == "-" {
			found, err := readDocuments("standard input", stdin)
			if err != nil {
				return nil, false, err
			}
			all, read = append(all, found...), read+2 // a stream is of any number
			continue
		}
		files, err := manifestFiles(path, recursive)
		if err != nil {
			return nil, false, err
		}
		read += len(files)
		for _, file := range files {
			found, err := readFile(file)
			if err != nil {
				return nil, false, err
			}
			all = append(all, found...)
		}
	}
	return all, read == 1, nil
}

// manifestFiles returns the files that a path stands for.
func manifestFiles(path string, recursive bool) (files []string, err error) {
	if strings.HasPrefix(path, "http://") || strings.HasPrefix(path, "https://") {
		return nil, fmt.Errorf("%s: nothing is fetched from other machines: save it to a file first", path)
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
		err = fmt.Errorf("%s: no files %s in it", path, strings.Join(manifestExtensions, ", "))
	}
	return files, err
}

func readFile(path string) ([]document, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readDocuments(path, f)
}

// readDocuments reads YAML or JSON.
func readDocuments(source string, r io.Reader) ([]document, error) {
	var all []document
	decoder := yaml.NewYAMLOrJSONDecoder(r, 4096)
	for number := 1; ; number++ {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		d := document{source: source, number: number}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		if d.data = bytes.TrimSpace(raw.Raw); len(d.data) == 0 || string(d.data) == "null" {
			continue // between two separators
		}
		if err := d.open(); err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		found, err := d.flatten()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", d, err)
		}
		all = append(all, found...)
	}
}

// open finds out what the document is.
func (d *document) open() error {
	var head struct {
		runtime.TypeMeta
		Metadata struct {
			Name string `json:"name"`
		} `json:"metadata"`
	}
	if d.data[0] != '{' {
		return errors.New("not an object of Kubernetes: want fields like apiVersion and kind")
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.data, &head); err != nil {
		return errors.New("not an object of Kubernetes: apiVersion, kind and metadata.name must be strings")
	}
	d.gvk, d.name = schema.FromAPIVersionAndKind(head.APIVersion, head.Kind), head.Metadata.Name
	if d.gvk.Kind == "" {
		return errors.New("not an object of Kubernetes: kind is missing")
	}
	if d.gvk.Version == "" {
		return errors.New("not an object of Kubernetes: apiVersion is missing")
	}
	return nil
}

// flatten returns the items of a list, or the document itself. Items of a list of one kind need not say what they are.
func (d document) flatten() ([]document, error) {
	if !strings.HasSuffix(d.gvk.Kind, "List") {
		return []document{d}, nil
	}
	var list struct {
		Items *[]map[string]any `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(d.data, &list); err != nil {
		return nil, fmt.Errorf("items of a %s must be an array of objects", d.gvk.Kind)
	}
	if list.Items == nil {
		return []document{d}, nil // a kind whose name ends so
	}
	var all []document
	for i, item := range *list.Items {
		if kind := strings.TrimSuffix(d.gvk.Kind, "List"); kind != "" && item["kind"] == nil && item["apiVersion"] == nil && item != nil {
			item["apiVersion"], item["kind"] = d.gvk.GroupVersion().String(), kind
		}
		data, err := json.Marshal(item)
		if err != nil {
			return nil, err
		}
		in := document{source: d.source, number: d.number, item: i + 1, data: data}
		if err := in.open(); err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		nested, err := in.flatten()
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", i+1, err)
		}
		all = append(all, nested...)
	}
	return all, nil
}
