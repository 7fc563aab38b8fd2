package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/toolkit/internal/front"
)

// certificates are the kinds of cert-manager that the manifests of webhooks have.
const certificates = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: KINDs.cert-manager.io}
spec:
  group: cert-manager.io
  names: {kind: KIND, listKind: KINDList, plural: KINDs, singular: KIND}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}
`

// TestMatrix makes projects with combinations of flags. Each compiles, is vetted, its tests pass,
// its generated files are current, and a server takes the manifests that make deploy applies.
func TestMatrix(t *testing.T) {
	t.Setenv(front.Self, program(t))
	for _, tc := range []struct {
		name    string
		lines   []string
		samples bool // are applied. Those of kinds with webhooks need the operator
	}{
		{"kinds and versions", []string{
			"init --domain example.com --repo example.com/guestbook --license none",
			"create api --group webapp --version v1 --kind Guestbook",
			"create api --group webapp --version v2alpha1 --kind Guestbook",
			"create api --group webapp --version v1 --kind Realm --namespaced=false --plural=realms",
			"create api --group webapp --version v1 --kind Shelf --controller=false",
		}, true},
		{"groups, webhooks and conversions", []string{
			"init --domain example.com --repo example.com/guestbook --multigroup --owner The-authors",
			"create api --group batch --version v1 --kind CronJob",
			"create api --group batch --version v2 --kind CronJob",
			"create api --group apps --version v1 --kind Deck",
			"create webhook --group batch --version v1 --kind CronJob --defaulting --programmatic-validation --conversion --spoke v2",
			"create webhook --group apps --version v1 --kind Deck --programmatic-validation",
		}, false},
		{"one namespace, on Kapok's framework", []string{
			"init --domain example.com --repo example.com/guestbook --namespaced --framework kapok",
			"create api --group webapp --version v1 --kind Guestbook",
			"create webhook --group webapp --version v1 --kind Guestbook --defaulting",
		}, false},
		{"kinds of others, and plugins", []string{
			"init --domain example.com --repo example.com/guestbook",
			"create api --group cache --version v1alpha1 --kind Memcached --image=memcached:1.6-alpine --image-container-port=11211 --plugins=deploy-image/v1-alpha",
			"create api --group apps --version v1 --kind Deployment --resource=false --controller",
			"create webhook --group core --version v1 --kind Pod --programmatic-validation",
			"create api --group gateway --version v1 --kind Gateway --resource=false --controller --external-api-path=sigs.k8s.io/gateway-api/apis/v1 " +
				"--external-api-domain=networking.k8s.io --external-api-module=sigs.k8s.io/gateway-api@v1.6.3",
			"edit --plugins=grafana/v1-alpha",
			"edit --plugins=helm/v2-alpha",
		}, true},
		{"envtest", []string{
			"init --domain example.com --repo example.com/guestbook --test-env envtest",
			"create api --group webapp --version v1 --kind Guestbook",
			"create webhook --group webapp --version v1 --kind Guestbook --defaulting --programmatic-validation",
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			p := newProject(t)
			for _, line := range tc.lines {
				p.must(line)
			}
			p.must("generate --check")
			p.must("vet")
			p.tool("vet", "./...")
			if strings.Contains(strings.Join(tc.lines, " "), "envtest") {
				assets := filepath.Join(p.temp, "assets")
				if code, out := p.command(os.Environ(), program(t), "envtest", assets); code != 0 {
					t.Fatalf("kapok envtest: %s", out)
				}
				t.Setenv("KUBEBUILDER_ASSETS", assets)
			}
			p.tool("test", "-count=1", "./internal/...")

			kubectl := p.server()
			apply := func(args ...string) {
				t.Helper()
				if code, out := kubectl(append([]string{"apply", "--server-side"}, args...)...); code != 0 || !strings.Contains(out, "serverside-applied") {
					t.Errorf("kubectl apply %v: exit code %d\n%s", args, code, out)
				}
			}
			for _, kind := range []string{"certificate", "issuer"} {
				p.write(kind+".yaml", strings.NewReplacer("kind: KIND,", "kind: "+strings.ToUpper(kind[:1])+kind[1:]+",", "KIND", kind).Replace(certificates))
				apply("-f", kind+".yaml")
			}
			if code, out := kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=1m"); code != 0 {
				t.Errorf("the definitions are not served: %s", out)
			}
			apply("-k", "config/default")
			if code, out := kubectl("wait", "--for=condition=Established", "crd", "--all", "--timeout=1m"); code != 0 {
				t.Errorf("the definitions are not served: %s", out)
			}
			if tc.samples {
				apply("-k", "config/samples")
			}
		})
	}
}
