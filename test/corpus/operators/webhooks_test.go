package operators

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWebhooks installs the webhooks of Cluster API with its own manifests, adding only what
// cert-manager would, and serves their requests: objects of the version that the rules name, and of
// another one, must arrive at the right paths of its service, and the responses must take effect.
func TestWebhooks(t *testing.T) {
	objects := clusterAPI(t)
	operator := startOperator(t, "webhook-service.system.svc")
	s := start(t)
	ctx := t.Context()
	create := func(path string, obj tree) tree {
		t.Helper()
		a := s.do(ctx, "POST", path, obj)
		if a.err != nil {
			t.Fatalf("POST %s: %v", path, a.err)
		}
		return a.object
	}
	create("/api/v1/namespaces", tree{"metadata": tree{"name": "system"}})
	create("/api/v1/namespaces/system/services", tree{"metadata": tree{"name": "webhook-service"}, "spec": tree{
		"type": "ExternalName", "externalName": "localhost", "ports": []any{tree{"port": 443, "targetPort": operator.port}},
	}})
	for _, crd := range objects["CustomResourceDefinition"] {
		raw, err := json.Marshal(crd)
		if err != nil {
			t.Fatal(err)
		}
		d := &definition{from: "Cluster API", raw: raw, crd: &apiextensionsv1.CustomResourceDefinition{}}
		if err := json.Unmarshal(raw, d.crd); err != nil {
			t.Fatal(err)
		}
		if err := s.establish(t, []*definition{d})[d]; err != nil {
			t.Fatal(err)
		}
	}
	const clusters = "/apis/cluster.x-k8s.io/v1beta2/namespaces/default/clusters"
	cluster := func(version, name string) tree {
		return tree{"apiVersion": "cluster.x-k8s.io/" + version, "kind": "Cluster", "metadata": tree{"name": name},
			"spec": tree{"clusterNetwork": tree{"pods": tree{"cidrBlocks": []any{"10.0.0.0/16"}}}}}
	}
	for _, kind := range []string{"MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		for _, configuration := range objects[kind] {
			for _, hook := range configuration["webhooks"].([]any) {
				hook.(tree)["clientConfig"].(tree)["caBundle"] = operator.ca
			}
			create("/apis/admissionregistration.k8s.io/v1/"+strings.ToLower(kind)+"s", configuration)
		}
	}

	made := create(clusters, cluster("v1beta2", "a"))
	if labels, _ := made["metadata"].(tree)["labels"].(tree); labels["from"] != "operator" {
		t.Errorf("the webhook's change is missing: %v", made["metadata"])
	}
	create(strings.Replace(clusters, "v1beta2", "v1beta1", 1), cluster("v1beta1", "b"))
	if a := s.do(ctx, "POST", clusters, cluster("v1beta2", "refused")); a.err == nil || !strings.Contains(a.err.Error(), `denied the request: not this one`) {
		t.Errorf("got %v", a.err)
	}
	want := []string{
		"/mutate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta2 a",
		"/validate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta2 a",
		"/mutate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta1 b",
		"/validate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta1 b",
		"/mutate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta2 refused",
		"/validate-cluster-x-k8s-io-v1beta2-cluster CREATE v1beta2 of v1beta2 refused",
	}
	if got := operator.asked(); !slices.Equal(got, want) {
		t.Errorf("asked:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// clusterAPI returns the definition of clusters and the webhooks of the core of Cluster API, by
// kind.
func clusterAPI(t *testing.T) map[string][]tree {
	t.Helper()
	modules, err := download()
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]tree{}
	for _, m := range modules {
		if m.Path != "sigs.k8s.io/cluster-api" {
			continue
		}
		all, err := documents(m)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range all {
			if !strings.Contains(d.from, "/core/config/webhook/manifests.yaml#") && !strings.Contains(d.from, "/core/config/crd/bases/cluster.x-k8s.io_clusters.yaml#") {
				continue
			}
			if p := parse(d); p != nil {
				objects[p.kind] = append(objects[p.kind], p.object)
			}
		}
	}
	for _, kind := range []string{"CustomResourceDefinition", "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"} {
		if len(objects[kind]) != 1 {
			t.Fatalf("Cluster API has %d of %s where one is expected", len(objects[kind]), kind)
		}
	}
	return objects
}

// An operator serves reviews.
type operator struct {
	ca   []byte // in PEM
	port int

	mu  sync.Mutex
	log []string
}

// startOperator starts an operator with a certificate for a name.
func startOperator(t *testing.T, name string) *operator {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	o := &operator{ca: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})}
	server := httptest.NewUnstartedServer(http.HandlerFunc(o.review))
	server.TLS = &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
	server.StartTLS()
	t.Cleanup(server.Close)
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if o.port, err = strconv.Atoi(port); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *operator) review(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, fmt.Sprint("no review: ", err), http.StatusBadRequest)
		return
	}
	asked := review.Request
	o.mu.Lock()
	o.log = append(o.log, fmt.Sprintf("%s %s %s of %s %s", r.URL.Path, asked.Operation, asked.Kind.Version, asked.RequestKind.Version, asked.Name))
	o.mu.Unlock()
	answer := &admissionv1.AdmissionResponse{UID: asked.UID, Allowed: true}
	switch {
	case strings.HasPrefix(r.URL.Path, "/mutate-"):
		patch := admissionv1.PatchTypeJSONPatch
		answer.PatchType, answer.Patch = &patch, []byte(`[{"op":"add","path":"/metadata/labels","value":{"from":"operator"}}]`)
	case asked.Name == "refused":
		answer.Allowed, answer.Result = false, &metav1.Status{Message: "not this one"}
	}
	review.Request, review.Response = nil, answer
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(review)
}

func (o *operator) asked() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.log)
}
