package stages

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Read reads stages from files, and from the files *.yaml, *.yml and *.json in directories, but not
// in those below. Documents of other kinds, such as a kustomization, are skipped. A file or a
// directory without a kind of KWOK that this package knows is an error, and so is a Stage that
// cannot be compiled.
func Read(paths ...string) ([]*kwok.Stage, error) {
	objects, err := read(paths)
	if err != nil {
		return nil, err
	}
	var all []*kwok.Stage
	for _, o := range objects {
		if s, ok := o.Object.(*kwok.Stage); ok {
			if _, err := compile(context.Background(), s); err != nil {
				return nil, fmt.Errorf("read stages: %s: stage %s: %w", o.path, s.Name, err)
			}
			all = append(all, s)
		}
	}
	return all, nil
}

// A document is an object of a file.
type document struct {
	metav1.Object
	path string
}

// read reads the objects of the kinds that this package knows.
func read(paths []string) ([]document, error) {
	var all []document
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		if !info.IsDir() {
			found, err := readFile(path)
			if err != nil {
				return nil, err
			}
			if len(found) == 0 {
				return nil, fmt.Errorf("read stages: %s has no object of %s", path, kwok.GroupVersion)
			}
			all = append(all, found...)
			continue
		}
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, fmt.Errorf("read stages: %w", err)
		}
		before := len(all)
		for _, entry := range entries {
			switch filepath.Ext(entry.Name()) {
			case ".yaml", ".yml", ".json":
				found, err := readFile(filepath.Join(path, entry.Name()))
				if err != nil {
					return nil, err
				}
				all = append(all, found...)
			}
		}
		if len(all) == before {
			return nil, fmt.Errorf("read stages: the files in %s have no object of %s", path, kwok.GroupVersion)
		}
	}
	return all, nil
}

func readFile(path string) ([]document, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read stages: %w", err)
	}
	var all []document
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		text, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read stages: %s: %w", path, err)
		}
		found, err := decode(text)
		if err != nil {
			return nil, fmt.Errorf("read stages: %s: %w", path, err)
		}
		for _, o := range found {
			all = append(all, document{o, path})
		}
	}
}

// decode decodes an object, or those of a List; none if a document is of an unknown kind.
func decode(text []byte) ([]metav1.Object, error) {
	var is struct {
		APIVersion, Kind string
		Items            []json.RawMessage
	}
	if err := yaml.Unmarshal(text, &is); err != nil {
		return nil, err
	}
	if strings.HasSuffix(is.Kind, "List") {
		var all []metav1.Object
		for _, item := range is.Items {
			found, err := decode(item)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	var o metav1.Object
	switch is.Kind {
	case kwok.StageKind:
		o = &kwok.Stage{}
	case kwok.ResourceUsageKind:
		o = &kwok.ResourceUsage{}
	case kwok.ClusterResourceUsageKind:
		o = &kwok.ClusterResourceUsage{}
	default:
		o = newRule(is.Kind)
	}
	if o == nil || !strings.HasPrefix(is.APIVersion, kwok.GroupVersion.Group+"/") {
		return nil, nil
	}
	if is.APIVersion != kwok.GroupVersion.String() {
		return nil, fmt.Errorf("apiVersion is %s: want %s", is.APIVersion, kwok.GroupVersion)
	}
	if err := yaml.UnmarshalStrict(text, o); err != nil {
		return nil, err
	}
	if s, ok := o.(*kwok.Stage); ok {
		kwok.SetObjectDefaults_Stage(s)
	}
	return []metav1.Object{o}, nil
}
