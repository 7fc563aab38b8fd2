//go:build emit

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

const autoscalingDefinitions = "io.k8s.api.autoscaling."

// autoscalers returns the definitions of two versions that k8s.io/api no longer has, derived from
// those that it has. v2beta2 has the types of v2; v2beta1 is v2 without behavior, and v1 still has
// the types of its metrics.
func autoscalers(lines []string) ([]string, error) {
	beta1 := []string{"HorizontalPodAutoscaler", "HorizontalPodAutoscalerList", "HorizontalPodAutoscalerSpec", "HorizontalPodAutoscalerStatus"}
	var all []string
	for _, line := range lines {
		rest, ok := strings.CutPrefix(line, autoscalingDefinitions+"v2.")
		if !ok {
			continue
		}
		all = append(all, inVersion(line, "v2beta2"))
		name, definition, _ := strings.Cut(rest, "\t")
		if !slices.Contains(beta1, name) {
			continue
		}
		definition, err := without(definition, "behavior")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, other := range beta1 {
			definition = strings.ReplaceAll(definition, autoscalingDefinitions+"v2."+other+`"`, autoscalingDefinitions+"v2beta1."+other+`"`)
		}
		definition = strings.ReplaceAll(definition, autoscalingDefinitions+"v2.", autoscalingDefinitions+"v1.")
		all = append(all, inVersion(autoscalingDefinitions+"v2."+name+"\t"+definition, "v2beta1")+"\n")
	}
	return all, nil
}

// inVersion replaces the version in a line: in its name, its references and its kind.
func inVersion(line, version string) string {
	line = strings.ReplaceAll(line, autoscalingDefinitions+"v2.", autoscalingDefinitions+version+".")
	return strings.ReplaceAll(line, `"version":"v2"`, `"version":"`+version+`"`)
}

// without removes a property.
func without(definition, property string) (string, error) {
	var schema map[string]any
	if err := json.Unmarshal([]byte(definition), &schema); err != nil {
		return "", err
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		delete(properties, property)
	}
	text, err := marshal(schema)
	return string(text), err
}
