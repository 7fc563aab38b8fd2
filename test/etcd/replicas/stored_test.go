package replicas

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
)

// inProtobuf returns the bytes that kube-apiserver stores for a built-in kind.
func inProtobuf(t *testing.T, o runtime.Object) string {
	t.Helper()
	kinds, _, err := scheme.Scheme.ObjectKinds(o)
	if err != nil {
		t.Fatal(err)
	}
	o.GetObjectKind().SetGroupVersionKind(kinds[0])
	var buffer bytes.Buffer
	if err := protobuf.NewSerializer(scheme.Scheme, scheme.Scheme).Encode(o, &buffer); err != nil {
		t.Fatal(err)
	}
	return buffer.String()
}

func stamped(name, uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: "default", UID: types.UID(uid), CreationTimestamp: metav1.Unix(1_700_000_000, 0)}
}

// TestDataOfKubeAPIServer checks that objects that kube-apiserver has stored in etcd are served,
// and also those that it writes while servers run.
func TestDataOfKubeAPIServer(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	etcd := c.client(t)
	replicas := int32(3)
	deployment := func(name string) *appsv1.Deployment {
		return &appsv1.Deployment{ObjectMeta: stamped(name, "11111111-1111-1111-1111-111111111111"), Spec: appsv1.DeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}},
			},
		}}
	}
	const jsonMap = `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"in-json","namespace":"default",` +
		`"uid":"22222222-2222-2222-2222-222222222222","creationTimestamp":"2023-11-14T22:13:20Z"},"data":{"value":"json"}}` + "\n"
	put(t, etcd, "/registry/namespaces/default", inProtobuf(t, &corev1.Namespace{
		ObjectMeta: metav1.ObjectMeta{Name: "default", UID: "33333333-3333-3333-3333-333333333333", CreationTimestamp: metav1.Unix(1_700_000_000, 0),
			Labels: map[string]string{"kubernetes.io/metadata.name": "default"}},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	}))
	put(t, etcd, "/registry/deployments/default/in-protobuf", inProtobuf(t, deployment("in-protobuf")))
	put(t, etcd, "/registry/configmaps/default/in-json", jsonMap)
	put(t, etcd, "/registry/secrets/default/in-protobuf", inProtobuf(t, &corev1.Secret{
		ObjectMeta: stamped("in-protobuf", "44444444-4444-4444-4444-444444444444"), Type: corev1.SecretTypeOpaque, Data: map[string][]byte{"value": []byte("protobuf")}}))
	const foreign = "/registry/ranges/serviceips"
	put(t, etcd, foreign, "k8s\x00what only kube-apiserver knows")
	put(t, etcd, "/registry/apiextensions.k8s.io/customresourcedefinitions/olds.test.example.org", storedDefinition)
	put(t, etcd, "/registry/test.example.org/olds/default/in-json", `{"apiVersion":"test.example.org/v1","kind":"Olds","metadata":{`+
		`"creationTimestamp":"2023-11-14T22:13:20Z","generation":1,"name":"in-json","namespace":"default",`+
		`"uid":"55555555-5555-5555-5555-555555555555"},"data":{"value":"custom"}}`+"\n")
	at := revision(t, etcd)

	servers := c.startServers(t, 2)
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	for i, s := range servers {
		for path, want := range map[string][]string{
			"/api/v1/namespaces/default":                           {`"uid":"33333333`, `"phase":"Active"`, `"creationTimestamp":"2023-11-14T22:13:20Z"`},
			deployments + "/in-protobuf":                           {`"uid":"11111111`, `"replicas":3`, `"image":"nginx"`},
			configMaps + "/in-json":                                {`"uid":"22222222`, `"value":"json"`},
			"/api/v1/namespaces/default/secrets/in-protobuf":       {base64.StdEncoding.EncodeToString([]byte("protobuf"))},
			collection("olds", "default") + "/in-json":             {`"uid":"55555555`, `"value":"custom"`},
			definitions + "/olds.test.example.org":                 {`"Established"`},
			"/apis/test.example.org/v1":                            {`"olds"`},
			deployments + "?fieldSelector=metadata.name=in-absent": {`"items":[]`},
		} {
			got := s.do(t, "GET", path, "")
			for _, w := range want {
				if got.status != 200 || !strings.Contains(got.body, w) {
					t.Errorf("server %d: %s lacks %s: %d %s", i, path, w, got.status, got.body)
				}
			}
		}
	}
	// A resourceVersion is etcd's revision, so that clients can continue from earlier ones.
	if got := servers[0].must(t, 200, "GET", collection("olds", "default")+"/in-json", ""); got.Metadata.ResourceVersion != strconv.FormatInt(at, 10) {
		t.Errorf("resourceVersion %s, want %d", got.Metadata.ResourceVersion, at)
	}

	// Writes of kube-apiserver cause events.
	start := servers[1].must(t, 200, "GET", deployments, "").Metadata.ResourceVersion
	watch := servers[1].watch(t, deployments, start)
	put(t, etcd, "/registry/deployments/default/comes", inProtobuf(t, deployment("comes")))
	if got := watch.next(t, 1)[0]; got.Type != "ADDED" || got.Object.Metadata.Name != "comes" || got.Object.Kind != "Deployment" {
		t.Errorf("received %v", got)
	}

	// kube-apiserver can read the objects that a server writes.
	servers[0].must(t, 200, "PATCH", deployments+"/in-protobuf", `{"spec":{"replicas":4}}`)
	if got := watch.next(t, 1)[0]; got.Type != "MODIFIED" || got.Object.Metadata.Name != "in-protobuf" {
		t.Errorf("received %v", got)
	}
	value := stored(t, etcd, "/registry/deployments/default/in-protobuf")
	var back appsv1.Deployment
	if err := json.Unmarshal([]byte(value), &back); err != nil {
		t.Fatalf("%v: %q", err, value)
	}
	if back.Kind != "Deployment" || back.APIVersion != "apps/v1" || *back.Spec.Replicas != 4 || back.ResourceVersion != "" ||
		back.UID != "11111111-1111-1111-1111-111111111111" || back.Spec.Template.Spec.Containers[0].Image != "nginx" {
		t.Errorf("stored is %s", value)
	}
	if got := stored(t, etcd, foreign); got != "k8s\x00what only kube-apiserver knows" {
		t.Errorf("%s has become %q", foreign, got)
	}
}

const storedDefinition = `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1","metadata":{` +
	`"name":"olds.test.example.org","uid":"66666666-6666-6666-6666-666666666666","generation":1,"creationTimestamp":"2023-11-14T22:13:20Z"},` +
	`"spec":{"group":"test.example.org","names":{"plural":"olds","singular":"olds","kind":"Olds","listKind":"OldsList"},"scope":"Namespaced",` +
	`"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"data":{"type":"object",` +
	`"additionalProperties":{"type":"string"}}}}}}],"conversion":{"strategy":"None"}},"status":{"conditions":[` +
	`{"type":"NamesAccepted","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"NoConflicts","message":"no conflicts found"},` +
	`{"type":"Established","status":"True","lastTransitionTime":"2023-11-14T22:13:20Z","reason":"InitialNamesAccepted","message":"the initial names have been accepted"}],` +
	`"acceptedNames":{"plural":"olds","singular":"olds","kind":"Olds","listKind":"OldsList"},"storedVersions":["v1"]}}` + "\n"

// TestEncryption checks that secrets are encrypted in etcd, and that all servers read them.
func TestEncryption(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"aescbc", "aesgcm", "secretbox"} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			testEncryption(t, provider)
		})
	}
}

func testEncryption(t *testing.T, provider string) {
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32))
	file := filepath.Join(t.TempDir(), "encryption.yaml")
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n" +
		"- resources: [secrets]\n  providers:\n  - " + provider + ": {keys: [{name: first, secret: " + key + "}]}\n  - identity: {}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	encrypted := func(o *kapok.Options) { o.EncryptionConfig = file }
	c := startCluster(t, 1)
	servers := c.startServers(t, 3, encrypted)
	etcd := c.client(t)
	const secrets = "/api/v1/namespaces/default/secrets"
	watch := servers[1].watch(t, secrets, servers[1].must(t, 200, "GET", secrets, "").Metadata.ResourceVersion)
	servers[0].must(t, 201, "POST", secrets, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"s"},"stringData":{"value":"open sesame"}}`)
	servers[0].must(t, 201, "POST", configMaps, configMap("c", "open sesame"))
	prefix := "k8s:enc:" + provider + ":v1:first:"
	value := stored(t, etcd, "/registry/secrets/default/s")
	if !strings.HasPrefix(value, prefix) || strings.Contains(value, "sesame") {
		t.Errorf("stored is %q", value)
	}
	if value := stored(t, etcd, "/registry/configmaps/default/c"); !strings.HasPrefix(value, "{") {
		t.Errorf("stored is %q", value)
	}
	// The key of the shared authority must be secret too.
	if root := stored(t, etcd, "/registry/kapok/root"); !strings.HasPrefix(root, prefix) {
		t.Errorf("stored is %q", root)
	}
	want := base64.StdEncoding.EncodeToString([]byte("open sesame"))
	if got := watch.next(t, 1)[0]; got.Type != "ADDED" || got.Object.Data["value"] != want {
		t.Errorf("received %v", got)
	}
	servers = append(servers, c.startServer(t, encrypted))
	for i, s := range servers {
		if got := s.must(t, 200, "GET", secrets+"/s", "").Data["value"]; got != want {
			t.Errorf("server %d reads %q", i, got)
		}
	}
	servers[2].must(t, 200, "PATCH", secrets+"/s", `{"metadata":{"labels":{"a":"b"}}}`)
	if again := stored(t, etcd, "/registry/secrets/default/s"); !strings.HasPrefix(again, prefix) || again == value {
		t.Errorf("stored is %q", again)
	}
	// A server without the key returns an error, instead of serving some of the data.
	options := servers[0].options
	options.EncryptionConfig = ""
	if k, err := kapok.Start(t.Context(), options); err == nil {
		k.Stop()
		t.Error("a server starts without the key of what is stored")
	} else if !strings.Contains(err.Error(), "secret") {
		t.Errorf("%v does not name what cannot be read", err)
	}
}

// TestDamagedObject checks that a server starts with an unreadable value. It does not count as
// absent: reads that include it are errors until it is deleted; everything else works.
func TestDamagedObject(t *testing.T) {
	t.Parallel()
	c := startCluster(t, 1)
	etcd := c.client(t)
	first := c.startServer(t)
	first.must(t, 201, "POST", configMaps, configMap("whole", "x"))
	first.must(t, 201, "POST", configMaps, configMap("broken", "x"))
	const key = "/registry/configmaps/default/broken"
	put(t, etcd, key, "rubbish")
	second := c.startServer(t)
	for _, s := range []*server{first, second} {
		for request, want := range map[string]int{
			"GET " + configMaps + "/whole":    200,
			"GET " + configMaps + "/broken":   500,
			"GET " + configMaps:               500,
			"PATCH " + configMaps + "/broken": 500,
			"GET /api/v1/namespaces":          200,
			"GET /readyz":                     200,
		} {
			method, path, _ := strings.Cut(request, " ")
			eventually(t, 30*time.Second, request, func() bool { return s.do(t, method, path, `{"data":{"value":"y"}}`).status == want })
		}
	}
	if _, err := etcd.Delete(t.Context(), key); err != nil {
		t.Fatal(err)
	}
	for _, s := range []*server{first, second} {
		eventually(t, 30*time.Second, "an answer", func() bool { return s.do(t, "GET", configMaps, "").status == 200 })
		s.must(t, 404, "GET", configMaps+"/broken", "")
	}
	second.must(t, 201, "POST", configMaps, configMap("broken", "again"))
}
