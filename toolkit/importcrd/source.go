package importcrd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	yamlutil "k8s.io/apimachinery/pkg/util/yaml"
)

// A definition is a CustomResourceDefinition, and where it is from.
type definition struct {
	*apiextensionsv1.CustomResourceDefinition
	from string
}

// readFiles returns the definitions in files, in the files below directories with the extensions
// yaml, yml and json, and in the standard input, which is called "-". Other manifests are skipped.
func readFiles(paths []string, stdin io.Reader) ([]definition, error) {
	var all []definition
	for _, path := range paths {
		if path == "-" {
			data, err := io.ReadAll(stdin)
			if err != nil {
				return nil, fmt.Errorf("read the standard input: %w", err)
			}
			found, err := decode(data, "standard input")
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			return nil, err
		}
		if !info.IsDir() {
			found, err := readFile(path)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
			continue
		}
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return nil, err
		}
		err = filepath.WalkDir(path, func(path string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && (entry.Name() == "node_modules" || entry.Name() == ".git"):
				return fs.SkipDir
			case entry.IsDir() || !slices.Contains([]string{".yaml", ".yml", ".json"}, filepath.Ext(path)):
				return nil
			}
			if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
				return err // a symbolic link to a file is one
			}
			found, err := readFile(path)
			all = append(all, found...)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

func readFile(path string) ([]definition, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(data, []byte("CustomResourceDefinition")) {
		return nil, err
	}
	return decode(data, path)
}

// decode returns the definitions in a stream of YAML or JSON documents.
func decode(data []byte, from string) ([]definition, error) {
	var all []definition
	documents := yamlutil.NewYAMLOrJSONDecoder(bytes.NewReader(data), 4096)
	for n := 1; ; n++ {
		var text json.RawMessage
		switch err := documents.Decode(&text); {
		case errors.Is(err, io.EOF):
			return all, nil
		case err != nil && template.Match(data):
			return nil, fmt.Errorf("%s is a template: render it first, as in: helm template CHART --set crds.enabled=true | kapok import -f -", from)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", from, err)
		}
		where := from
		if n > 1 {
			where = fmt.Sprintf("%s, document %d", from, n)
		}
		found, err := decodeDocument(text, where)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
}

// template matches lines of a template of Helm that are no YAML.
var template = regexp.MustCompile(`(?m)^\s*\{\{`)

// kindOf is what all manifests have.
type kindOf struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func decodeDocument(text []byte, from string) ([]definition, error) {
	if len(text) == 0 || string(text) == "null" {
		return nil, nil
	}
	var is kindOf
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	switch {
	case strings.HasSuffix(is.Kind, "List"):
		return decodeList(text, is, from)
	case is.Kind != "CustomResourceDefinition":
		return nil, nil
	}
	return decodeDefinition(text, is.APIVersion, from)
}

func decodeList(text []byte, is kindOf, from string) ([]definition, error) {
	var list struct {
		Items []json.RawMessage `json:"items"`
	}
	if err := json.Unmarshal(text, &list); err != nil {
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	var all []definition
	for i, item := range list.Items {
		from := fmt.Sprintf("%s, item %d", from, i)
		found, err := decodeDocument(item, from)
		if is.Kind == "CustomResourceDefinitionList" { // its items need no kind
			found, err = decodeDefinition(item, is.APIVersion, from)
		}
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

func decodeDefinition(text []byte, apiVersion, from string) ([]definition, error) {
	if apiVersion != apiextensionsv1.SchemeGroupVersion.String() {
		return nil, fmt.Errorf("%s: the definition has apiVersion %q, want %s", from, apiVersion, apiextensionsv1.SchemeGroupVersion)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := json.Unmarshal(text, crd); err != nil { // unknown fields are dropped, as a server does
		return nil, fmt.Errorf("%s: %w", from, err)
	}
	return []definition{{crd, from}}, nil
}
