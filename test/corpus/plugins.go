package corpus

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// An Admission is the admission of the server for a script in testdata/plugins.
type Admission struct {
	// Enable are plugins that are off by default.
	Enable []string
	// ConfigFile is a file with an AdmissionConfiguration, or empty.
	ConfigFile string
	// Closed means that the server accepts no write. The script uses the namespace default then.
	Closed bool
}

// Namespace returns Server.Namespace.
func (a Admission) Namespace() string {
	if a.Closed {
		return "default"
	}
	return ""
}

// AdmissionOf returns the admission of the server for the script of t, a test of Run. The files and
// the webhooks of its configuration exist until t ends.
func AdmissionOf(t *testing.T) Admission {
	t.Helper()
	script := t.Name()[strings.LastIndex(t.Name(), "/")+1:]
	a := Admission{Enable: enabled[script], Closed: script == "always-deny"}
	dir := t.TempDir()
	var plugins string
	switch script {
	case "optional":
		plugins = optionalPlugins
	case "event-limits":
		plugins = eventLimits
	case "images":
		plugins = fmt.Sprintf(imagePolicy, imageWebhook(t, dir), false)
	case "images-fail-open":
		plugins = fmt.Sprintf(imagePolicy, imageWebhook(t, dir), true)
	case "files":
		plugins = manifests(t, dir)
	}
	if plugins != "" {
		a.ConfigFile = filepath.Join(dir, "admission.yaml")
		write(t, a.ConfigFile, "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"+plugins)
	}
	return a
}

// enabled are the plugins that are on for scripts, in addition to those that are on by default.
var enabled = map[string][]string{
	"always-deny":      {"AlwaysDeny"},
	"event-limits":     {"EventRateLimit"},
	"files":            nil,
	"images":           {"ImagePolicyWebhook"},
	"images-fail-open": {"ImagePolicyWebhook"},
	"namespace-exists": {"NamespaceExists"},
	"optional": {
		"AlwaysPullImages", "DenyServiceExternalIPs", "ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology",
		"NamespaceAutoProvision", "PodNodeSelector", "PodTolerationRestriction",
	},
}

const optionalPlugins = `
- name: PodNodeSelector
  configuration:
    podNodeSelectorPluginConfig:
      clusterDefaultNodeSelector: cluster=main
      limited: pool=a,cluster=main
- name: PodTolerationRestriction
  configuration:
    apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
    kind: Configuration
    default: [{key: everyone, operator: Exists, effect: NoSchedule}]
    whitelist: [{operator: Exists}]
- name: ResourceQuota
  configuration:
    apiVersion: apiserver.config.k8s.io/v1
    kind: ResourceQuotaConfiguration
    limitedResources:
    - resource: persistentvolumeclaims
      matchContains: [gold.storageclass.storage.k8s.io/requests.storage]
    - apiGroup: batch
      resource: cronjobs
      matchContains: [count/cronjobs]
    - resource: pods
      matchScopes: [{scopeName: PriorityClass, operator: In, values: [costly]}]`

// The buckets have one event, and get one per second. A script repeats an event until it is
// rejected, so that the speed of the server makes no difference.
const eventLimits = `
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits:
    - {type: Server, qps: 1, burst: 1}
    - {type: Namespace, qps: 1, burst: 1}
    - {type: SourceAndObject, qps: 1, burst: 1}
`

const imagePolicy = `
- name: ImagePolicyWebhook
  configuration:
    imagePolicy: {kubeConfigFile: %q, allowTTL: 60, denyTTL: 60, retryBackoff: 1, defaultAllow: %t}
`

// imageWebhook starts a webhook for ImageReviews, and returns the path of its kubeconfig.
func imageWebhook(t *testing.T, dir string) string {
	t.Helper()
	server := startImages(t)
	file := filepath.Join(dir, "images.kubeconfig")
	err := clientcmd.WriteToFile(clientcmdapi.Config{
		Clusters:       map[string]*clientcmdapi.Cluster{"c": {Server: server.URL, CertificateAuthorityData: authorityOf(server)}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {}},
		Contexts:       map[string]*clientcmdapi.Context{"x": {Cluster: "c", AuthInfo: "u"}},
		CurrentContext: "x",
	}, file)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// manifests writes the objects of testdata/plugins/files, and returns the plugins that read them.
func manifests(t *testing.T, dir string) string {
	t.Helper()
	var h hooks
	t.Cleanup(h.close)
	h.set("static", hookAnswer{
		APIVersion: "admission.k8s.io/v1", Kind: "AdmissionReview",
		Response: map[string]any{"allowed": false, "status": map[string]any{"message": "from a file", "code": 418}},
	})
	at := h.address("static")
	fill := strings.NewReplacer("{url}", fmt.Sprint(at["url"]), "{ca}", fmt.Sprint(at["ca"]))
	var plugins strings.Builder
	for _, plugin := range []string{"MutatingAdmissionPolicy", "MutatingAdmissionWebhook", "ValidatingAdmissionPolicy", "ValidatingAdmissionWebhook"} {
		text, err := os.ReadFile(filepath.Join("../corpus/testdata/plugins/files", plugin+".yaml"))
		if err != nil {
			t.Fatal(err)
		}
		objects := filepath.Join(dir, plugin)
		if err := os.Mkdir(objects, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(objects, "objects.yaml"), fill.Replace(string(text)))
		kind := plugin + "Configuration"
		if strings.HasSuffix(plugin, "Webhook") {
			kind = "WebhookAdmissionConfiguration"
		}
		fmt.Fprintf(&plugins, "- {name: %s, configuration: {apiVersion: apiserver.config.k8s.io/v1, kind: %s, staticManifestsDir: %q}}\n", plugin, kind, objects)
	}
	return plugins.String()
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
