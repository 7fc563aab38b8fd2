package defaults_test

import (
	"testing"

	"github.com/kapok-dev/kapok"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t *testing.T, o kapok.AdmissionOptions) *kubernetes.Clientset {
	t.Helper()
	server, err := kapok.Start(t.Context(), kapok.Options{Admission: o})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Stop() })
	return kubernetes.NewForConfigOrDie(server.Config())
}

func marked(name string, annotations ...string) metav1.ObjectMeta {
	m := metav1.ObjectMeta{Name: name, Annotations: map[string]string{}}
	for _, a := range annotations {
		m.Annotations[a] = "true"
	}
	return m
}

// TestDefaultClasses checks that objects without a class get the default one: of several the
// newest, and of those of the same second the first by name.
func TestDefaultClasses(t *testing.T) {
	client := start(t, kapok.AdmissionOptions{})
	ctx := t.Context()
	claim := func(name string, class *string, annotations map[string]string) string {
		c := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: class,
				Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
			},
		}
		c, err := client.CoreV1().PersistentVolumeClaims("default").Create(ctx, c, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if c.Spec.StorageClassName == nil {
			return "none"
		}
		return *c.Spec.StorageClassName
	}
	ingress := func(name string, class *string, annotations map[string]string) string {
		i := &networkingv1.Ingress{
			ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: annotations},
			Spec: networkingv1.IngressSpec{
				IngressClassName: class,
				DefaultBackend:   &networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: "s", Port: networkingv1.ServiceBackendPort{Number: 80}}},
			},
		}
		i, err := client.NetworkingV1().Ingresses("default").Create(ctx, i, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if i.Spec.IngressClassName == nil {
			return "none"
		}
		return *i.Spec.IngressClassName
	}
	check := func(what, got, want string) {
		t.Helper()
		if got != want {
			t.Errorf("%s is of class %s, want %s", what, got, want)
		}
	}
	check("a claim before there are classes", claim("before", nil, nil), "none")
	check("an ingress before there are classes", ingress("before", nil, nil), "none")

	const isDefault = "storageclass.kubernetes.io/is-default-class"
	for _, m := range []metav1.ObjectMeta{marked("a"), marked("c", isDefault), marked("b", isDefault)} {
		class := &storagev1.StorageClass{ObjectMeta: m, Provisioner: "example.com/p"}
		if _, err := client.StorageV1().StorageClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []metav1.ObjectMeta{marked("x"), marked("y", networkingv1.AnnotationIsDefaultIngressClass)} {
		class := &networkingv1.IngressClass{ObjectMeta: m, Spec: networkingv1.IngressClassSpec{Controller: "example.com/c"}}
		if _, err := client.NetworkingV1().IngressClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	empty, other := "", "other"
	check("a claim", claim("open", nil, nil), "b")
	check("a claim that wants no class", claim("without", &empty, nil), "")
	check("a claim that names one", claim("named", &other, nil), "other")
	check("a claim that names one as of old", claim("annotated", nil, map[string]string{corev1.BetaStorageClassAnnotation: "z"}), "none")
	check("an ingress", ingress("open", nil, nil), "y")
	check("an ingress that names one", ingress("named", &other, nil), "other")
	check("an ingress that names one as of old", ingress("annotated", nil, map[string]string{"kubernetes.io/ingress.class": "z"}), "none")
}

// TestTurnedOff checks that a disabled plugin does nothing, and that the tolerations have the
// seconds of the options.
func TestTurnedOff(t *testing.T) {
	zero, ten := int64(0), int64(10)
	client := start(t, kapok.AdmissionOptions{Disable: []string{"Priority", "TaintNodesByCondition"}, NotReadySeconds: &zero, UnreachableSeconds: &ten})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	pod, err := client.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if pod.Spec.Priority != nil {
		t.Errorf("the pod has priority %d", *pod.Spec.Priority)
	}
	if got := pod.Spec.Tolerations; len(got) != 2 || *got[0].TolerationSeconds != 0 || *got[1].TolerationSeconds != 10 {
		t.Errorf("the pod tolerates %v", got)
	}
	node, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 0 {
		t.Errorf("the node has taints %v", node.Spec.Taints)
	}
}
