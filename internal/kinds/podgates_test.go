package kinds_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/kinds/kind"
	"github.com/kapok-dev/kapok/internal/kinds/kindtest"
)

// TestGatedFields checks that fields of disabled features are dropped from pods and pod templates.
func TestGatedFields(t *testing.T) {
	s := kindtest.NewServer(t)
	const spec = `{restartPolicy: %s, containers: [{name: c, image: i, lifecycle: {stopSignal: SIGTERM}}], volumes: [{name: v, secret: {secretName: s, defaultUser: 5}}], os: {name: linux}}`
	for plural, form := range map[string]string{
		"pods":                   `{metadata: {name: g}, spec: %s}`,
		"podtemplates":           `{metadata: {name: g}, template: {metadata: {labels: {x: z}}, spec: %s}}`,
		"deployments":            `{metadata: {name: g}, spec: {selector: {matchLabels: {x: z}}, template: {metadata: {labels: {x: z}}, spec: %s}}}`,
		"replicasets":            `{metadata: {name: g}, spec: {selector: {matchLabels: {x: z}}, template: {metadata: {labels: {x: z}}, spec: %s}}}`,
		"statefulsets":           `{metadata: {name: g}, spec: {selector: {matchLabels: {x: z}}, template: {metadata: {labels: {x: z}}, spec: %s}}}`,
		"daemonsets":             `{metadata: {name: g}, spec: {selector: {matchLabels: {x: z}}, template: {metadata: {labels: {x: z}}, spec: %s}}}`,
		"replicationcontrollers": `{metadata: {name: g}, spec: {selector: {x: z}, template: {metadata: {labels: {x: z}}, spec: %s}}}`,
		"jobs":                   `{metadata: {name: g}, spec: {template: {spec: %s}}}`,
		"cronjobs":               `{metadata: {name: g}, spec: {schedule: "* * * * *", jobTemplate: {spec: {template: {spec: %s}}}}}`,
	} {
		restart := "Always"
		if plural == "jobs" || plural == "cronjobs" {
			restart = "Never"
		}
		text := fmt.Sprintf(form, fmt.Sprintf(spec, restart))
		obj := s.Tree(plural, s.Must(s.Create(plural, text)))
		kind.Drop(obj, "metadata", "managedFields") // they record the dropped fields
		if found := fmt.Sprint(obj); strings.Contains(found, "stopSignal") || strings.Contains(found, "defaultUser") {
			t.Errorf("%s keep %s", plural, found)
		}
	}
}
