package scaffold

import (
	"fmt"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kubebuilder/v4/pkg/machinery"
	"sigs.k8s.io/kubebuilder/v4/pkg/model/resource"
)

// The markers of kubebuilder in test suites, at which it inserts code for further kinds.
const (
	importMarker  = "imports"
	schemeMarker  = "scheme"
	webhookMarker = "webhook"
)

// A suite is a test suite that starts a server of Kapok. It has the variables and the markers of
// the one of kubebuilder in its place, which it overwrites.
type suite struct {
	machinery.TemplateMixin
	machinery.MultiGroupMixin
	machinery.BoilerplateMixin
	machinery.ResourceMixin

	// Root is the root of the project as arguments of filepath.Join.
	Root string
}

func (s *suite) set(path string, levels int, body string, markers ...any) {
	s.Path = path
	s.Root = strings.TrimSuffix(strings.Repeat(`"..", `, levels), ", ")
	s.TemplateBody = fmt.Sprintf(body, markers...)
	s.IfExistsAction = machinery.OverwriteFile
}

func (s *suite) marker(name string) machinery.Marker { return machinery.NewMarkerFor(s.Path, name) }

// fragments returns the code for the kind at the markers.
func (s *suite) fragments() machinery.CodeFragmentsMap {
	fragments := machinery.CodeFragmentsMap{}
	if s.Resource.Path != "" {
		alias := s.Resource.ImportAlias()
		fragments[s.marker(importMarker)] = []string{fmt.Sprintf("%s %q\n", alias, s.Resource.Path)}
		fragments[s.marker(schemeMarker)] = []string{fmt.Sprintf("err = %s.AddToScheme(scheme.Scheme)\nExpect(err).NotTo(HaveOccurred())\n\n", alias)}
	}
	return fragments
}

// A controllerSuite is internal/controller/suite_test.go.
type controllerSuite struct{ suite }

var (
	_ machinery.Template = (*controllerSuite)(nil)
	_ machinery.Inserter = (*controllerSuite)(nil)
)

func (s *controllerSuite) locate(multiGroup bool, r *resource.Resource) {
	path, levels := filepath.Join("internal", "controller", "suite_test.go"), 2
	if multiGroup && r.Group != "" {
		path, levels = filepath.Join("internal", "controller", r.Replacer().Replace("%[group]"), "suite_test.go"), 3
	}
	s.set(path, levels, controllerSuiteBody, machinery.NewMarkerFor(path, importMarker), machinery.NewMarkerFor(path, schemeMarker))
}

// SetTemplateDefaults implements machinery.Template.
func (s *controllerSuite) SetTemplateDefaults() error { return nil }

// GetMarkers implements machinery.Inserter.
func (s *controllerSuite) GetMarkers() []machinery.Marker {
	return []machinery.Marker{s.marker(importMarker), s.marker(schemeMarker)}
}

// GetCodeFragments implements machinery.Inserter.
func (s *controllerSuite) GetCodeFragments() machinery.CodeFragmentsMap { return s.fragments() }

const controllerSuiteBody = `{{ .Boilerplate }}

{{if and .MultiGroup .Resource.Group }}
package {{ .Resource.PackageName }}
{{else}}
package controller
{{end}}

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	%s
)

// The specs of this package share a server, which runs in the test process. See
// https://pkg.go.dev/github.com/kapok-dev/kapok/kapoktest for users, virtual time and faults.
var (
	ctx       context.Context
	cancel    context.CancelFunc
	testEnv   *kapoktest.Env
	cfg       *rest.Config
	k8sClient client.Client
)

func TestControllers(t *testing.T) {
	RegisterFailHandler(Fail)

	RunSpecs(t, "Controller Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))

	ctx, cancel = context.WithCancel(context.Background())
	DeferCleanup(cancel)

	var err error
	%s

	// The server ends with the suite.
	testEnv = kapoktest.Start(GinkgoTB(){{ if .Resource.HasAPI }}, kapoktest.CRDs(filepath.Join({{ .Root }}, "config", "crd", "bases")){{ end }})
	cfg = testEnv.Config()

	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())
})
`

// A webhookSuite is internal/webhook/VERSION/webhook_suite_test.go.
type webhookSuite struct{ suite }

var (
	_ machinery.Template = (*webhookSuite)(nil)
	_ machinery.Inserter = (*webhookSuite)(nil)
)

func (s *webhookSuite) locate(multiGroup bool, r *resource.Resource) {
	dir, levels := filepath.Join("internal", "webhook"), 3
	if multiGroup && r.Group != "" {
		dir, levels = filepath.Join(dir, r.Replacer().Replace("%[group]")), 4
	}
	path := filepath.Join(dir, r.Version, "webhook_suite_test.go")
	s.set(path, levels, webhookSuiteBody,
		machinery.NewMarkerFor(path, importMarker), machinery.NewMarkerFor(path, schemeMarker), machinery.NewMarkerFor(path, webhookMarker))
}

// SetTemplateDefaults implements machinery.Template.
func (s *webhookSuite) SetTemplateDefaults() error { return nil }

// GetMarkers implements machinery.Inserter.
func (s *webhookSuite) GetMarkers() []machinery.Marker {
	return []machinery.Marker{s.marker(importMarker), s.marker(schemeMarker), s.marker(webhookMarker)}
}

// GetCodeFragments implements machinery.Inserter.
func (s *webhookSuite) GetCodeFragments() machinery.CodeFragmentsMap {
	fragments := s.fragments()
	fragments[s.marker(webhookMarker)] = []string{fmt.Sprintf("err = Setup%sWebhookWithManager(mgr)\nExpect(err).NotTo(HaveOccurred())\n\n", s.Resource.Kind)}
	return fragments
}

const webhookSuiteBody = `{{ .Boilerplate }}

package {{ .Resource.Version }}

import (
	"context"
	"path/filepath"
	"testing"

	"github.com/kapok-dev/kapok/kapoktest"
	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	%s
)

// The specs of this package share a server, which runs in the test process and calls the webhooks of
// the manager there: without a port and without certificates.
var (
	ctx       context.Context
	cancel    context.CancelFunc
	k8sClient client.Client
	cfg       *rest.Config
	testEnv   *kapoktest.Env
)

func TestAPIs(t *testing.T) {
	RegisterFailHandler(Fail)

	RunSpecs(t, "Webhook Suite")
}

var _ = BeforeSuite(func() {
	logf.SetLogger(zap.New(zap.WriteTo(GinkgoWriter), zap.UseDevMode(true)))

	ctx, cancel = context.WithCancel(context.Background())
	DeferCleanup(cancel)

	var err error
	%s

	// The server ends with the suite.
	testEnv = kapoktest.Start(GinkgoTB(){{ if not (or .Resource.External .Resource.Core) }},
		kapoktest.CRDs(filepath.Join({{ .Root }}, "config", "crd", "bases")){{ end }},
		kapoktest.Webhooks(filepath.Join({{ .Root }}, "config", "webhook")))
	cfg = testEnv.Config()

	k8sClient, err = client.New(cfg, client.Options{Scheme: scheme.Scheme})
	Expect(err).NotTo(HaveOccurred())

	mgr, err := ctrl.NewManager(cfg, ctrl.Options{
		Scheme:         scheme.Scheme,
		WebhookServer:  webhook.NewServer(webhook.Options{Port: -1, WebhookMux: testEnv.WebhookMux()}),
		LeaderElection: false,
		Metrics:        metricsserver.Options{BindAddress: "0"},
	})
	Expect(err).NotTo(HaveOccurred())

	%s

	testEnv.Go(mgr.Start)
})
`
