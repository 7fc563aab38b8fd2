package oracle

import (
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kapok-dev/kapok/scheduler/place"
	"github.com/kapok-dev/kapok/test/seeds"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/metrics"
)

// preBinds is the number of extended claims that TestPlaceExtended lets kube-scheduler create: each
// takes a second.
const preBinds = 8

// extendedConfigurations are the usual rules, and rules by which the devices of a node count in its
// score. NodeResourcesBalancedAllocation of kube-scheduler panics if they do.
var extendedConfigurations = []string{`{"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}`, `
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {disabled: [{name: ImageLocality}]}
  pluginConfig:
  - name: NodeResourcesFit
    args:
      scoringStrategy:
        type: MostAllocated
        resources: [{name: example.com/gpu, weight: 3}, {name: net.example.com/if, weight: 1}, {name: cpu, weight: 1}]
`}

// TestPlaceExtended is TestPlaceClaims for pods with extended resources that classes of devices
// provide: nodes without them must be refused for the same reasons, and the claims that are created
// for them must be the same.
func TestPlaceExtended(t *testing.T) {
	seed := seeds.Of(t)
	metrics.Register()
	seen, created := map[string]int{}, 0
	file := filepath.Join(t.TempDir(), "scheduler.yaml")
	for i := range max(*placeClusters/4, 1) {
		g := &clusterGenerator{rand.New(rand.NewPCG(seed, uint64(i)))}
		w := g.world()
		g.devices(w)
		g.extendedClasses(w)
		ours := place.NewCluster(1)
		w.tell(ours)
		w.tellDevices(ours)
		theirs, profile := readBoth(t, file, []byte(extendedConfigurations[i%2]))
		for n := range 6 {
			p := g.extendedPod(w, ours, fmt.Sprint("new", n))
			real := newConfiguredPlacer(t, w, theirs)
			want, got := real.judge(t, p), judgeBy(ours, p, profile)
			if want != got {
				t.Fatalf("cluster %d: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), describeDevices(w), want, got)
			}
			d := ours.Place(p, profile)
			for _, scores := range d.Scores() {
				if i%2 == 1 && scores["NodeResourcesFit"] > 0 && len(d.Scores()) > 1 {
					seen["scores of devices"]++
				}
			}
			for _, no := range d.Refusals() {
				seen[claimReason(no.Reasons[0])]++
			}
			if d.Node == "" {
				g.changeDevices(w, ours)
				continue
			}
			seen["placed"]++
			plugin, _ := profile.Dynamic()
			choices, err := ours.Allocate(p, d.Node, plugin)
			if err != nil {
				t.Fatal(err)
			}
			at := slices.IndexFunc(choices, func(c place.ClaimChoice) bool { return c.Uses != nil })
			if at < 0 {
				ours.Release(choices)
				continue
			}
			seen["extended"]++
			extended := choices[at]
			checkAllocation(t, w, d.Node, extended)
			if len(p.Spec.InitContainers) > 0 && len(extended.Claim.Spec.Devices.Requests) > 1 {
				seen["init containers"]++
			}
			if created < preBinds && len(p.Spec.ResourceClaims) == 0 {
				created++
				claim, status := real.preBind(t, p, d.Node)
				if !reflect.DeepEqual(claim.Spec, extended.Claim.Spec) || !reflect.DeepEqual(claim.OwnerReferences, extended.Claim.OwnerReferences) ||
					!reflect.DeepEqual(claim.Annotations, extended.Claim.Annotations) || claim.GenerateName != extended.Claim.GenerateName {
					t.Errorf("%skube-scheduler creates\n%+v\nKapok\n%+v", describe(w, p), claim, extended.Claim)
				}
				if want := status.RequestMappings; !reflect.DeepEqual(want, extended.Uses) {
					t.Errorf("%skube-scheduler reports\n%+v\nKapok\n%+v", describe(w, p), want, extended.Uses)
				}
			}
			ours.Release(choices)
			if g.sometimes(2) { // it is bound, or the claim is left
				claim := extended.Claim.DeepCopy()
				w.n++
				claim.Name, claim.ResourceVersion, claim.Status.Allocation = p.Name+"-extended", fmt.Sprint(w.n), extended.Allocation
				w.replaceDevices(ours, claim)
				if want, got := newConfiguredPlacer(t, w, theirs).judge(t, p), judgeBy(ours, p, profile); want != got {
					t.Fatalf("cluster %d, again: %s%s\nkube-scheduler:\n%s\nkapok:\n%s", i, describe(w, p), describeDevices(w), want, got)
				}
				d := ours.Place(p, profile)
				for _, no := range d.Refusals() {
					seen[no.Reasons[0]]++
				}
				if d.Node == "" && d.Leftover() != nil {
					seen["left"]++
				}
			}
			if g.sometimes(2) {
				g.changeDevices(w, ours)
			}
		}
	}
	t.Log(seen)
	for _, want := range []string{"placed", "extended", "scores of devices", "init containers", "left", "cannot allocate all claims", "cannot schedule extended resource claim", "Insufficient example.com/gpu"} {
		if seen[want] == 0 {
			t.Errorf("%q has not happened", want)
		}
	}
}

// extendedClasses makes classes provide extended resources, some of them the same.
func (g *clusterGenerator) extendedClasses(w *world) {
	begin := time.Unix(1000, 0)
	for _, o := range w.devices {
		class, is := o.(*resourcev1.DeviceClass)
		if !is {
			continue
		}
		class.CreationTimestamp = metav1.NewTime(begin.Add(time.Duration(g.r.IntN(2)) * time.Minute))
		switch class.Name {
		case "gpu", "large":
			if !g.sometimes(3) {
				class.Spec.ExtendedResourceName = new("example.com/gpu")
			}
		case "net":
			class.Spec.ExtendedResourceName = new("net.example.com/if")
		}
	}
}

// extendedPod is a pod with extended resources.
func (g *clusterGenerator) extendedPod(w *world, c *place.Cluster, name string) *corev1.Pod {
	p := g.pod(name, "")
	if g.sometimes(4) {
		p = g.claimant(w, c, name)
	} else if !g.sometimes(4) {
		p.Spec = corev1.PodSpec{Containers: []corev1.Container{{Name: "c0", Image: "web:1"}}, Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}}}
		for i := range g.r.IntN(3) {
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: fmt.Sprint("i", i), Image: "web:1"})
			if g.sometimes(3) {
				p.Spec.InitContainers[i].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
			}
		}
		if g.sometimes(3) {
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "c1", Image: "web:1"})
		}
	}
	for _, containers := range [][]corev1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range containers {
			for range 1 + g.r.IntN(2) {
				if containers[i].Resources.Requests == nil {
					containers[i].Resources.Requests = corev1.ResourceList{}
				}
				name := g.one("example.com/gpu", "example.com/gpu", "net.example.com/if", "deviceclass.resource.kubernetes.io/any", "deviceclass.resource.kubernetes.io/none")
				if strings.HasSuffix(name, "none") && !g.sometimes(10) {
					name = "cpu"
				}
				containers[i].Resources.Requests[corev1.ResourceName(name)] = resource.MustParse(g.one("0", "1", "1", "2"))
			}
		}
	}
	return p
}

// preBind lets kube-scheduler reserve a node for a pod and create its extended claim. It returns
// the claim, and what the status of the pod says about it.
func (r *realPlacer) preBind(t *testing.T, p *corev1.Pod, node string) (resourcev1.ResourceClaim, *corev1.PodExtendedResourceClaimStatus) {
	t.Helper()
	ctx, client := t.Context(), r.framework.ClientSet()
	if _, err := client.CoreV1().Pods(p.Namespace).Create(ctx, p.DeepCopy(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	state := framework.NewCycleState()
	if _, status, _ := r.framework.RunPreFilterPlugins(ctx, state, p); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	info, err := r.snapshot.NodeInfos().Get(node)
	if err != nil {
		t.Fatal(err)
	}
	if status := r.framework.RunFilterPlugins(ctx, state, p, info); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	if status := r.framework.RunReservePluginsReserve(ctx, state, p, node); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	if status := r.framework.RunPreBindPlugins(ctx, state, p, node); !status.IsSuccess() {
		t.Fatal(status.AsError())
	}
	bound, err := client.CoreV1().Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	status := bound.Status.ExtendedResourceClaimStatus
	if status == nil {
		t.Fatal("kube-scheduler has not reported a claim")
	}
	claim, err := client.ResourceV1().ResourceClaims(p.Namespace).Get(ctx, status.ResourceClaimName, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return *claim, status
}
