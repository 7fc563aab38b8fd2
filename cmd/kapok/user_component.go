package main

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// nodesGroup is that of all nodes.
const nodesGroup = "system:nodes"

// A component is a part of Kubernetes that is a user of the API, whose rights come from default
// roles.
type component struct {
	name   string // with a colon at its end, it is followed by a name of one's own
	groups []string
	gives  string // its permissions, in a clause after "which"
}

var components = []component{
	{name: "system:kube-scheduler", gives: "reads all pods and nodes, and binds or deletes any pod"},
	{name: "system:kube-controller-manager", gives: "reads every object, writes all Secrets and makes tokens of all service accounts, and so can act as any of them"},
	{name: "system:kube-proxy", gives: "reads all services, endpoints and nodes"},
	{
		name: "system:node:", groups: []string{nodesGroup},
		gives: "writes its own node and pods, and reads the Secrets and makes tokens of the service accounts of pods that are bound to it",
	},
}

func componentNames() string {
	var names []string
	for _, c := range components {
		name := c.name
		if strings.HasSuffix(name, ":") {
			name += "NAME"
		}
		names = append(names, name)
	}
	return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
}

// componentOf returns the component with a user name, or nil.
func componentOf(name string) *component {
	for i := range components {
		c := &components[i]
		if name == c.name || strings.HasSuffix(c.name, ":") && strings.HasPrefix(name, c.name) {
			return c
		}
	}
	return nil
}

// check rejects invalid names of nodes.
func (c *component) check(name string) error {
	if node, ok := strings.CutPrefix(name, c.name); ok && strings.HasSuffix(c.name, ":") {
		if problems := validation.IsDNS1123Subdomain(node); len(problems) > 0 {
			return fmt.Errorf("user %q: %q is not a valid node name: %s", name, node, strings.Join(problems, "; "))
		}
	}
	if len(name) > longestName {
		return fmt.Errorf("user %.20q...: a name must not be longer than %d bytes", name, longestName)
	}
	return nil
}
