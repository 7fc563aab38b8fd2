package controllers_test

import (
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/client"
	"github.com/kapok-dev/kapok/controllers"
	"github.com/kapok-dev/kapok/kapoktest"
	"github.com/kapok-dev/kapok/manager"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A bad is an object that a controller cannot do its work for. The namespace of its objects is its
// name.
type bad struct {
	name string
	// objects are created in this order. about is that of them that has the sign: the event or the
	// reason of a condition; "" for input that Kubernetes does not report.
	objects []client.Object
	about   string
	sign    string
	// mend removes the cause, and good reports whether the controllers have recovered.
	mend func(*kapoktest.Env)
	good func(*kapoktest.Env) bool
}

// in returns the metadata of an object of the bad input of that name.
func in(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func labeled(app string) (*metav1.LabelSelector, corev1.PodTemplateSpec) {
	labels := map[string]string{"app": app}
	return &metav1.LabelSelector{MatchLabels: labels}, corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: labels},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
}

func quota(namespace string, what corev1.ResourceName) *corev1.ResourceQuota {
	return &corev1.ResourceQuota{ObjectMeta: in(namespace, "quota"), Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{what: resource.MustParse("0")}}}
}

func remove(objs ...client.Object) func(*kapoktest.Env) {
	return func(env *kapoktest.Env) { env.Delete(objs...) }
}

func add(objs ...client.Object) func(*kapoktest.Env) {
	return func(env *kapoktest.Env) { env.Create(objs...) }
}

// pods reports whether a namespace has so many pods.
func pods(namespace string, want int) func(*kapoktest.Env) bool {
	return func(env *kapoktest.Env) bool {
		var list corev1.PodList
		return env.Client().List(env.Context(), &list, client.InNamespace(namespace)) == nil && len(list.Items) == want
	}
}

func atLeastOnePod(namespace string) func(*kapoktest.Env) bool {
	return func(env *kapoktest.Env) bool { return !pods(namespace, 0)(env) }
}

func allBad() []bad {
	deploy := func(namespace string, change func(*appsv1.Deployment)) *appsv1.Deployment {
		d := deployment("web", 3)
		d.Namespace = namespace
		if change != nil {
			change(d)
		}
		return d
	}
	none, template := labeled("x")
	everywhere, never := template, template
	everywhere.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	never.Spec.RestartPolicy = corev1.RestartPolicyNever
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: in("no-class", "data"), Spec: corev1.PersistentVolumeClaimSpec{
		StorageClassName: new("absent"), AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
	}}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "by-hand"}, Spec: corev1.PersistentVolumeSpec{
		StorageClassName: "absent", AccessModes: claim.Spec.AccessModes, Capacity: claim.Spec.Resources.Requests,
		PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
	}}
	ofSet := *claim
	ofSet.ObjectMeta = metav1.ObjectMeta{Name: "data"}
	ephemeral := &corev1.Pod{ObjectMeta: in("foreign-claim", "web"), Spec: template.Spec}
	ephemeral.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
		Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim.Spec}},
	}}}
	foreign := &corev1.PersistentVolumeClaim{ObjectMeta: in("foreign-claim", "web-data"), Spec: claim.Spec}
	devices := &corev1.Pod{ObjectMeta: in("no-template", "web"), Spec: template.Spec}
	devices.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimTemplateName: new("absent")}}
	lb := func(name string) *corev1.Service {
		return &corev1.Service{ObjectMeta: in("no-address", name), Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "nothing"},
		}}
	}
	first, second := lb("first"), lb("second")
	scaler := &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: in("no-target", "web"), Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
		ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		MinReplicas:    new(int32(2)), MaxReplicas: 4,
	}}
	restricted := func(name string, o client.Object) bad {
		o.SetNamespace(name)
		o.SetName("web")
		return bad{name, []client.Object{o}, "web", "FailedCreate", func(env *kapoktest.Env) {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
			env.Get(ns)
			env.Update(ns, func() { delete(ns.Labels, "pod-security.kubernetes.io/enforce") })
		}, pods(name, 1)}
	}
	noPods := quota("quota", corev1.ResourcePods)
	noSets := quota("quota-of-sets", "count/replicasets.apps")
	noJobs := quota("quota-of-jobs", "count/jobs.batch")
	noClaims := quota("quota-of-claims", corev1.ResourcePersistentVolumeClaims)
	noSlices := quota("quota-of-slices", "count/endpointslices.discovery.k8s.io")
	selected := &corev1.Service{ObjectMeta: in("quota-of-slices", "web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: map[string]string{"app": "x"}}}
	thief := &appsv1.ReplicaSet{ObjectMeta: in("pods-of-another", "thief"), Spec: appsv1.ReplicaSetSpec{Replicas: new(int32(2)), Selector: none, Template: template}}
	victim := &appsv1.ReplicaSet{ObjectMeta: in("pods-of-another", "victim"), Spec: thief.Spec}
	return []bad{
		{"quota", []client.Object{noPods, deploy("quota", nil)}, "web", "ReplicaFailure/FailedCreate", remove(noPods), pods("quota", 3)},
		{"quota-of-sets", []client.Object{noSets, deploy("quota-of-sets", nil)}, "web", "ReplicaSetCreateError", remove(noSets), pods("quota-of-sets", 3)},
		{"no-account", []client.Object{deploy("no-account", func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "absent" })}, "web", "ReplicaFailure/FailedCreate",
			add(&corev1.ServiceAccount{ObjectMeta: in("no-account", "absent")}), pods("no-account", 3)},
		restricted("restricted-replicaset", &appsv1.ReplicaSet{Spec: appsv1.ReplicaSetSpec{Selector: none, Template: template}}),
		restricted("restricted-replicationcontroller", &corev1.ReplicationController{Spec: corev1.ReplicationControllerSpec{Selector: none.MatchLabels, Template: &template}}),
		restricted("restricted-statefulset", &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Selector: none, Template: template}}),
		restricted("restricted-daemonset", &appsv1.DaemonSet{Spec: appsv1.DaemonSetSpec{Selector: none, Template: everywhere}}),
		restricted("restricted-job", &batchv1.Job{Spec: batchv1.JobSpec{Template: never}}),
		{"quota-of-jobs", []client.Object{noJobs, &batchv1.CronJob{ObjectMeta: in("quota-of-jobs", "web"), Spec: batchv1.CronJobSpec{
			Schedule: "*/20 * * * *", JobTemplate: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: never}},
		}}}, "web", "FailedCreate", remove(noJobs), atLeastOnePod("quota-of-jobs")},
		{"quota-of-claims", []client.Object{noClaims, &appsv1.StatefulSet{ObjectMeta: in("quota-of-claims", "web"), Spec: appsv1.StatefulSetSpec{
			Selector: none, Template: template, VolumeClaimTemplates: []corev1.PersistentVolumeClaim{ofSet},
		}}}, "web", "FailedCreate", remove(noClaims), pods("quota-of-claims", 1)},
		{"no-target", []client.Object{scaler}, "web", "AbleToScale/FailedGetScale", add(deploy("no-target", func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(1)) })), pods("no-target", 2)},
		{"no-class", []client.Object{claim}, "data", "ProvisioningFailed", add(volume), func(env *kapoktest.Env) bool {
			env.Get(claim)
			return claim.Status.Phase == corev1.ClaimBound
		}},
		{"foreign-claim", []client.Object{foreign, ephemeral}, "web", "FailedBinding", remove(foreign), func(env *kapoktest.Env) bool {
			var claim corev1.PersistentVolumeClaim
			return env.Client().Get(env.Context(), client.ObjectKeyFromObject(foreign), &claim) == nil && metav1.IsControlledBy(&claim, ephemeral)
		}},
		{"no-template", []client.Object{devices}, "web", "FailedResourceClaimCreation", nil, nil},
		{"no-address", []client.Object{first, second}, "second", "SyncLoadBalancerFailed", remove(first), func(env *kapoktest.Env) bool {
			env.Get(second)
			return len(second.Status.LoadBalancer.Ingress) == 1
		}},
		{"quota-of-slices", []client.Object{noSlices, selected}, "web", "FailedToUpdateEndpointSlices", remove(noSlices), nil},
		{"selects-nothing", []client.Object{
			&policyv1.PodDisruptionBudget{ObjectMeta: in("selects-nothing", "web"), Spec: policyv1.PodDisruptionBudgetSpec{MinAvailable: new(intstr.FromInt32(1)), Selector: none}},
			&corev1.Service{ObjectMeta: in("selects-nothing", "web"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}, Selector: none.MatchLabels}},
		}, "web", "DisruptionAllowed/InsufficientPods", nil, nil},
		{"pods-of-nobody", []client.Object{
			&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "pods-of-nobody", Name: "web", Labels: none.MatchLabels}, Spec: template.Spec},
			&policyv1.PodDisruptionBudget{ObjectMeta: in("pods-of-nobody", "web"), Spec: policyv1.PodDisruptionBudgetSpec{MaxUnavailable: new(intstr.FromInt32(1)), Selector: none}},
		}, "web", "UnmanagedPods", nil, nil},
		{"pods-of-another", []client.Object{victim, thief}, "", "", nil, pods("pods-of-another", 4)},
	}
}

// TestBadInput runs all controllers with objects that they cannot do their work for. Each has an
// event or a condition that says so. In a virtual day, attempts become rare, and when the cause has
// gone, the controllers recover without a restart.
func TestBadInput(t *testing.T) {
	all := allBad()
	options := controllers.Options{Manager: manager.Options{Logger: logr.FromSlogHandler(slog.DiscardHandler)}, LoadBalancerPool: []netip.Prefix{netip.MustParsePrefix("192.0.2.7/32")}}
	kapoktest.Bubble(t, func(t *testing.T, env *kapoktest.Env) {
		m, err := controllers.New(env.Config(), options)
		if err != nil {
			t.Fatal(err)
		}
		env.Go(m.Start)
		env.Create(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
		for _, b := range all {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: b.name}}
			if strings.HasPrefix(b.name, "restricted-") {
				ns.Labels = map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}
			}
			env.Create(ns)
			env.Settle()
			for _, o := range b.objects {
				env.Create(o)
				env.Settle()
			}
		}
		time.Sleep(5 * time.Minute)
		// As in Kubernetes, these events are recorded once, and expire after an hour.
		fading := []string{"pods-of-nobody"}
		checkSigns := func(later bool) {
			t.Helper()
			for _, b := range all {
				if b.about != "" && !(later && slices.Contains(fading, b.name)) && !signed(t, env, b) {
					t.Errorf("%s: nothing about %s says %s", b.name, b.about, b.sign)
				}
			}
		}
		checkSigns(false)
		time.Sleep(2 * time.Hour)
		const day = 24 * time.Hour
		for of, n := range writesOf(env, day) {
			limit := 24 * 6
			if of == "POST jobs of quota-of-jobs" || of == "POST pods of restricted-job" {
				limit = 24 * 60 // Kubernetes tries once a minute
			}
			if n > limit {
				t.Errorf("%d writes in a day: %s", n, of)
			}
		}
		checkSigns(true)
		for _, b := range all {
			if b.mend != nil {
				b.mend(env)
			}
		}
		time.Sleep(21 * time.Minute) // the longest pause is 1,000 s; the CronJob's next time comes
		for _, b := range all {
			if b.good != nil && !b.good(env) {
				t.Errorf("%s: no recovery", b.name)
			}
		}
	})
}

// signed reports whether an event or the reason of a condition says what is wrong.
func signed(t *testing.T, env *kapoktest.Env, b bad) bool {
	t.Helper()
	var events corev1.EventList
	if err := env.Client().List(env.Context(), &events, client.InNamespace(b.name)); err != nil {
		t.Fatal(err)
	}
	sign := regexp.MustCompile("^(" + b.sign + ")$")
	for _, e := range events.Items {
		if e.InvolvedObject.Name == b.about && sign.MatchString(e.Reason) {
			return true
		}
	}
	for _, o := range b.objects {
		if o.GetName() != b.about {
			continue
		}
		env.Get(o)
		var conditions []string
		switch o := o.(type) {
		case *appsv1.Deployment:
			for _, c := range o.Status.Conditions {
				conditions = append(conditions, fmt.Sprint(c.Type, "/", c.Reason))
			}
		case *autoscalingv2.HorizontalPodAutoscaler:
			for _, c := range o.Status.Conditions {
				conditions = append(conditions, fmt.Sprint(c.Type, "/", c.Reason))
			}
		case *policyv1.PodDisruptionBudget:
			for _, c := range o.Status.Conditions {
				conditions = append(conditions, fmt.Sprint(c.Type, "/", c.Reason))
			}
		}
		if slices.ContainsFunc(conditions, sign.MatchString) {
			return true
		}
		t.Logf("%s %T: conditions %v", b.name, o, conditions)
	}
	for _, e := range events.Items {
		t.Logf("%s: event %s %s: %s", b.name, e.InvolvedObject.Name, e.Reason, e.Message)
	}
	return false
}

// writesOf counts the writes of controllers in a time, by method, resource and namespace. Events
// are not counted: clients limit them to one for an object every five minutes.
func writesOf(env *kapoktest.Env, in time.Duration) map[string]int {
	from := time.Now()
	time.Sleep(in)
	path := regexp.MustCompile(`/namespaces/([^/]+)/([^/]+)(/.*)?$`)
	n := map[string]int{}
	for _, r := range env.Writes() {
		if r.UserAgent != controllers.UserAgent || !r.Time.After(from) {
			continue
		}
		what := r.Method + " " + r.Path
		if m := path.FindStringSubmatch(r.Path); m != nil {
			if m[2] == "events" {
				continue
			}
			what = r.Method + " " + m[2] + " of " + m[1]
		}
		n[what]++
	}
	return n
}
