package main

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// documentOf returns the kind of a YAML document; "" for other text.
func documentOf(data []byte) string {
	var document metav1.TypeMeta
	if yaml.Unmarshal(data, &document) != nil {
		return ""
	}
	return document.Kind
}

// commandLineOf returns the arguments of kube-apiserver in the manifest of a pod or in a text.
func commandLineOf(data []byte) ([]string, error) {
	switch kind := documentOf(data); kind {
	case "":
		return argumentsIn(string(data))
	case "Pod":
		var pod corev1.Pod
		if err := yaml.Unmarshal(data, &pod); err != nil {
			return nil, err
		}
		for _, container := range pod.Spec.Containers {
			words := slices.Concat(container.Command, container.Args)
			if args, found := argumentsOf(words); found {
				return args, nil
			}
			if container.Name == apiServerName && len(container.Command) == 0 {
				return container.Args, nil
			}
		}
		return nil, errors.New("no container of the pod runs " + apiServerName)
	default:
		return nil, fmt.Errorf("kind %s: %w", kind, errWanted)
	}
}

// errWanted is the error of a file that stands for no configuration.
var errWanted = errors.New("want a Pod that runs " + apiServerName + ", its command line, or a " + configurationKind)

// apiServerName is the name of the program whose flags are read.
const apiServerName = "kube-apiserver"

// argumentsOf returns what follows the program in words. A word may be a command of a shell.
func argumentsOf(words []string) (args []string, found bool) {
	for i, word := range words {
		if path.Base(word) == apiServerName {
			return words[i+1:], true
		}
		if i > 0 && words[i-1] == "-c" && strings.Contains(word, apiServerName) {
			args, err := argumentsIn(word)
			return args, err == nil
		}
	}
	return nil, false
}

// argumentsIn returns the arguments of kube-apiserver in a text: a command line, or a unit of
// systemd. Lines can continue after a backslash, and words can be quoted, but nothing is expanded.
func argumentsIn(text string) ([]string, error) {
	text = strings.NewReplacer("\\\r\n", " ", "\\\n", " ").Replace(text)
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "#") || !strings.Contains(line, apiServerName) {
			continue
		}
		line = strings.TrimLeft(strings.TrimPrefix(line, "ExecStart="), "@-:+!")
		words, err := wordsOf(line)
		if err != nil {
			return nil, err
		}
		if args, found := argumentsOf(words); found {
			return args, nil
		}
	}
	return nil, errWanted
}

// wordsOf splits a line at blanks outside of quotes.
func wordsOf(line string) ([]string, error) {
	var words []string
	var word strings.Builder
	begun, quote := false, rune(0)
	for _, r := range line {
		switch {
		case quote != 0 && r == quote:
			quote = 0
		case quote == 0 && (r == '\'' || r == '"'):
			quote, begun = r, true
		case quote == 0 && (r == ' ' || r == '\t'):
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		case quote != '\'' && (r == '$' || r == '`' || r == '\\'):
			return nil, fmt.Errorf("the command line has %q, which a shell would expand: write the value", r)
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quote != 0 {
		return nil, fmt.Errorf("the command line has a %c without an end", quote)
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}
