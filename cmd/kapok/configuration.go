package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/cmd/kapok/internal/instance"

	"github.com/spf13/pflag"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// A configuration file has the flags of kapok up as fields, in camel case.
const (
	configurationVersion = "kapok.dev/v1alpha1"
	configurationKind    = "ServerConfiguration"
)

// configurationVariable names a configuration file where there is no --config.
const configurationVariable = "KAPOK_CONFIG"

// telling are the flags that mean something else when they are set to their default than when they
// are not set.
var telling = []string{"listen", "scheduler"}

// ofCommandLine are the flags that only a command line has.
var ofCommandLine = []string{"help", "config", "detach", "verbose"}

// configurable returns the flags that a configuration can set, by their fields.
func configurable(f *pflag.FlagSet) map[string]*pflag.Flag {
	all := map[string]*pflag.Flag{}
	f.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden && !slices.Contains(ofCommandLine, flag.Name) {
			all[fieldOf(flag.Name)] = flag
		}
	})
	return all
}

// fieldOf returns the field of a flag: logLevel for log-level.
func fieldOf(flag string) string {
	words := strings.Split(flag, "-")
	for i, word := range words[1:] {
		words[i+1] = strings.ToUpper(word[:1]) + word[1:]
	}
	return strings.Join(words, "")
}

// variableOf returns the variable of a flag: KAPOK_LOG_LEVEL for log-level.
func variableOf(flag string) string {
	return "KAPOK_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// configure sets the flags that the command line leaves open: first by variables, then by the file.
// The file is that of the flag, of $KAPOK_CONFIG, or the kapok.yaml of the project whose instance
// is meant.
func configure(f *pflag.FlagSet, file string, project *instance.Project) error {
	if err := setByVariables(f, os.Getenv); err != nil {
		return err
	}
	if file == "" && !f.Changed("config") {
		file = os.Getenv(configurationVariable)
	}
	ofProject := file == "" && project != nil
	if ofProject {
		file = project.File
	}
	if file == "" {
		return nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("configuration: %w", err)
	}
	if ofProject && len(bytes.TrimSpace(data)) == 0 {
		return nil
	}
	fields, err := readConfiguration(data)
	if err == nil && ofProject && fields["dataDir"] != nil {
		err = errors.New("field dataDir: the instance of a project has its own directory")
	}
	if err == nil {
		err = setByFields(f, fields)
	}
	if err != nil {
		return fmt.Errorf("configuration %s: %w", file, err)
	}
	return nil
}

func setByVariables(f *pflag.FlagSet, value func(variable string) string) error {
	all := configurable(f)
	for _, field := range slices.Sorted(maps.Keys(all)) {
		flag := all[field]
		text := value(variableOf(flag.Name))
		if text == "" || flag.Changed {
			continue
		}
		if err := setFlag(f, flag, text); err != nil {
			return fmt.Errorf("$%s: %w", variableOf(flag.Name), err)
		}
	}
	return nil
}

// readConfiguration returns the fields of a configuration file, other than its kind and version.
func readConfiguration(data []byte) (map[string]any, error) {
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	first, err := documents.Read()
	if err != nil && err != io.EOF {
		return nil, err
	}
	if second, err := documents.Read(); err == nil && len(bytes.TrimSpace(second)) > 0 {
		return nil, errors.New("the file has several documents: want one")
	}
	text, err := yaml.YAMLToJSONStrict(first)
	if err != nil {
		return nil, err
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil {
		return nil, errors.New("want a mapping of fields to values")
	}
	version, kind := fields["apiVersion"], fields["kind"]
	if version != configurationVersion || kind != configurationKind {
		return nil, fmt.Errorf("want apiVersion: %s and kind: %s, got %v and %v", configurationVersion, configurationKind, version, kind)
	}
	delete(fields, "apiVersion")
	delete(fields, "kind")
	return fields, nil
}

// setByFields sets the flags that are not set. It checks all names first.
func setByFields(f *pflag.FlagSet, fields map[string]any) error {
	all := configurable(f)
	known := slices.Sorted(maps.Keys(all))
	names := slices.Sorted(maps.Keys(fields))
	for _, name := range names {
		if all[name] == nil {
			return fmt.Errorf("unknown field %q%s", name, nearest(name, known, ""))
		}
	}
	for _, name := range names {
		flag := all[name]
		if flag.Changed || isDefault(flag, fields[name]) {
			continue
		}
		if err := setField(f, flag, fields[name]); err != nil {
			return fmt.Errorf("field %s: %w", name, err)
		}
	}
	return nil
}

// isDefault reports whether a field has the value of a flag that is not set. Such a field does not
// exclude others.
func isDefault(flag *pflag.Flag, value any) bool {
	if slices.Contains(telling, flag.Name) {
		return false
	}
	switch value := value.(type) {
	case []any:
		return len(value) == 0 && (flag.DefValue == "" || flag.DefValue == "[]")
	case nil:
		return false
	}
	text, err := scalar(value)
	return err == nil && text == flag.DefValue
}

func setField(f *pflag.FlagSet, flag *pflag.Flag, value any) error {
	switch value := value.(type) {
	case []any:
		var texts []string
		for _, v := range value {
			text, err := scalar(v)
			if err != nil {
				return err
			}
			texts = append(texts, text)
		}
		list, isList := flag.Value.(pflag.SliceValue)
		switch {
		case isList:
			if err := f.Set(flag.Name, ""); err != nil { // so that it counts as set
				return err
			}
			return list.Replace(texts)
		case flag.Value.Type() == "ranges":
			return setFlag(f, flag, strings.Join(texts, ","))
		}
		return errors.New("want one value, not a list")
	case map[string]any:
		if !isMapping(flag) {
			return errors.New("want a value, not a mapping")
		}
		for _, key := range slices.Sorted(maps.Keys(value)) {
			text, err := scalar(value[key])
			if err != nil {
				return err
			}
			if err := setFlag(f, flag, key+"="+text); err != nil {
				return err
			}
		}
		return nil
	}
	text, err := scalar(value)
	if err != nil {
		return err
	}
	return setFlag(f, flag, text)
}

func scalar(value any) (string, error) {
	switch value := value.(type) {
	case string:
		return value, nil
	case bool, json.Number:
		return fmt.Sprint(value), nil
	case nil:
		return "", errors.New("it has no value: leave the field out for the default")
	}
	return "", errors.New("want a string, a number or a boolean")
}

func setFlag(f *pflag.FlagSet, flag *pflag.Flag, text string) error {
	err := f.Set(flag.Name, text)
	if invalid := (*pflag.InvalidValueError)(nil); errors.As(err, &invalid) {
		return fmt.Errorf("%q %w", text, wantedOf(flag, invalid.Unwrap()))
	}
	return err
}

// writeConfiguration prints flags as a configuration file: those that are set, or all.
func writeConfiguration(w io.Writer, f *pflag.FlagSet, all bool) error {
	fields := map[string]any{"apiVersion": configurationVersion, "kind": configurationKind}
	for field, flag := range configurable(f) {
		if flag.Changed || all && !slices.Contains(telling, flag.Name) {
			fields[field] = valueOf(flag)
		}
	}
	data, err := yaml.Marshal(fields)
	if err != nil {
		return err
	}
	_, err = w.Write(data)
	return err
}

// isMapping reports whether the value of a flag is a mapping in YAML.
func isMapping(flag *pflag.Flag) bool {
	return flag.Value.Type() == "mapStringString" || flag.Value.Type() == "mapStringBool"
}

// valueOf returns the value of a flag by its type in YAML.
func valueOf(flag *pflag.Flag) any {
	text := flag.Value.String()
	switch flag.Value.Type() {
	case "bool":
		return text == "true"
	case "int", "int64", "float64":
		return json.Number(text)
	case "mapStringString":
		if text == "" {
			return map[string]string{}
		}
		if p, ok := flag.Value.(*pairs); ok {
			return map[string]string(*p)
		}
	case "mapStringBool":
		if s, ok := flag.Value.(*switches); ok && *s != nil {
			return map[string]bool(*s)
		}
		return map[string]bool{}
	case "ranges":
		if text == "" {
			return []string{}
		}
		return strings.Split(text, ",")
	}
	if list, ok := flag.Value.(pflag.SliceValue); ok {
		return append([]string{}, list.GetSlice()...)
	}
	return text
}
