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

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	kwok "sigs.k8s.io/kwok/pkg/apis/v1alpha1"
	"sigs.k8s.io/yaml"
)

// Read reads stages from files, and from the files *.yaml, *.yml and *.json in directories, but not in those below. Documents of other
// kinds, such as a kustomization, are skipped. A file or a directory without a Stage is an error, and so is a Stage that cannot be
// compiled.
func Read(paths ...string) ([]*kwok.Stage, error) {
	var all []*kwok.Stage
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
				return nil, fmt.Errorf("read stages: %s has no Stage of %s", path, kwok.GroupVersion)
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
			return nil, fmt.Errorf("read stages: the files in %s have no Stage of %s", path, kwok.GroupVersion)
		}
	}
	return all, nil
}

func readFile(path string) ([]*kwok.Stage, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read stages: %w", err)
	}
	var all []*kwok.Stage
	for documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read stages: %s: %w", path, err)
		}
		found, err := decode(document)
		if err != nil {
			return nil, fmt.Errorf("read stages: %s: %w", path, err)
		}
		for _, s := range found {
			if _, err := compile(context.Background(), s); err != nil {
				return nil, fmt.Errorf("read stages: %s: stage %s: %w", path, s.Name, err)
			}
		}
		all = append(all, found...)
	}
}

// decode decodes a Stage, or those of a List; none if a document is of another kind.
func decode(document []byte) ([]*kwok.Stage, error) {
	var is struct {
		APIVersion, Kind string
		Items            []json.RawMessage
	}
	if err := yaml.Unmarshal(document, &is); err != nil {
		return nil, err
	}
	if is.Kind == "List" || is.Kind == kwok.StageKind+"List" {
		var all []*kwok.Stage
		for _, item := range is.Items {
			found, err := decode(item)
			if err != nil {
				return nil, err
			}
			all = append(all, found...)
		}
		return all, nil
	}
	if is.Kind != kwok.StageKind || !strings.HasPrefix(is.APIVersion, kwok.GroupVersion.Group+"/") {
		return nil, nil
	}
	if is.APIVersion != kwok.GroupVersion.String() {
		return nil, fmt.Errorf("apiVersion is %s: want %s", is.APIVersion, kwok.GroupVersion)
	}
	s := &kwok.Stage{}
	if err := yaml.UnmarshalStrict(document, s); err != nil {
		return nil, err
	}
	kwok.SetObjectDefaults_Stage(s)
	return []*kwok.Stage{s}, nil
}
