package simulated

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/node/internal/podstatus"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// SimulationAnnotation is the annotation of a pod that defines how its containers behave, in YAML
// or JSON:
//
//	containers:
//	  web: {pull: 2s, ready: 5s}
//	  "*": {run: 30s, exit: 1, times: 2}
//
// The entry "*" is for all containers, and the one with a container's name precedes it field by
// field. The package documentation lists the fields.
const SimulationAnnotation = "kapok.dev/simulation"

// A simulation is how the containers of a pod behave.
type simulation struct {
	containers map[string]behaviour
	completes  bool // its containers complete by default
}

// A behaviour is an entry of the annotation. A nil field is not set.
type behaviour struct {
	Pull      *duration `json:"pull"`
	PullError *bool     `json:"pullError"`
	Start     *duration `json:"start"`
	Ready     *duration `json:"ready"`
	Unready   *bool     `json:"unready"`
	Unhealthy *duration `json:"unhealthy"`
	Run       *duration `json:"run"`
	Exit      *int32    `json:"exit"`
	Reason    *string   `json:"reason"`
	Message   *string   `json:"message"`
	Times     *int32    `json:"times"`
	Stop      *duration `json:"stop"`
	Logs      *string   `json:"logs"`
	// Exec has the output of commands by their words, with a space between them, or by "*".
	Exec *map[string]string `json:"exec"`
	// CPU and Memory are what the container uses, and Usage has later changes of it.
	CPU    *resource.Quantity `json:"cpu"`
	Memory *resource.Quantity `json:"memory"`
	Usage  *[]usageStep       `json:"usage"`
}

// forever is the duration of a run without an end.
const forever = duration(-1)

// A duration is not negative, except forever.
type duration time.Duration

// UnmarshalJSON reads what time.ParseDuration does, and "forever".
func (d *duration) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("%s is not a duration such as \"2s\"", data)
	}
	if text == "forever" {
		*d = forever
		return nil
	}
	parsed, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	if parsed < 0 {
		return fmt.Errorf("duration %q is negative", text)
	}
	*d = duration(parsed)
	return nil
}

func (d *duration) orZero() time.Duration {
	if d == nil || *d == forever {
		return 0
	}
	return time.Duration(*d)
}

func isSet(b *bool) bool { return b != nil && *b }

// simulationOf returns how a pod behaves. After an error it behaves as if it had no annotation.
func simulationOf(p *corev1.Pod) (simulation, error) {
	s := simulation{completes: ownedByJob(p)}
	text, ok := p.Annotations[SimulationAnnotation]
	if !ok {
		return s, nil
	}
	var read struct {
		Containers map[string]behaviour `json:"containers"`
	}
	if err := yaml.UnmarshalStrict([]byte(text), &read); err != nil {
		return s, fmt.Errorf("annotation %s: %w", SimulationAnnotation, plain(err))
	}
	for name, b := range read.Containers {
		if name != "*" && !hasContainer(p, name) {
			return s, fmt.Errorf("annotation %s: the pod has no container %q", SimulationAnnotation, name)
		}
		if err := b.validate(); err != nil {
			return s, fmt.Errorf("annotation %s: container %q: %w", SimulationAnnotation, name, err)
		}
	}
	s.containers = read.Containers
	s.completes = s.completes || p.Spec.RestartPolicy != corev1.RestartPolicyAlways
	return s, nil
}

// plain removes the words of a decoder.
func plain(err error) error {
	text := err.Error()
	for _, prefix := range []string{"error unmarshaling JSON: ", "while decoding JSON: ", "error converting YAML to JSON: "} {
		text = strings.TrimPrefix(text, prefix)
	}
	return fmt.Errorf("%s", text)
}

func (b *behaviour) validate() error {
	if b.Exit != nil && (*b.Exit < 0 || *b.Exit > 255) {
		return fmt.Errorf("exit %d: must be between 0 and 255", *b.Exit)
	}
	if b.Times != nil && *b.Times < 1 {
		return fmt.Errorf("times %d: must be at least 1", *b.Times)
	}
	for name, d := range map[string]*duration{"pull": b.Pull, "start": b.Start, "ready": b.Ready, "unhealthy": b.Unhealthy, "stop": b.Stop} {
		if d != nil && *d == forever {
			return fmt.Errorf("%s: only run can be forever", name)
		}
	}
	return b.validateUsage()
}

func ownedByJob(p *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(p)
	return owner != nil && owner.Kind == "Job" && strings.HasPrefix(owner.APIVersion, "batch/")
}

func hasContainer(p *corev1.Pod, name string) bool {
	is := func(c corev1.Container) bool { return c.Name == name }
	return slices.ContainsFunc(p.Spec.Containers, is) || slices.ContainsFunc(p.Spec.InitContainers, is) ||
		slices.ContainsFunc(p.Spec.EphemeralContainers, func(c corev1.EphemeralContainer) bool { return c.Name == name })
}

// of returns the behaviour of a container.
func (s *simulation) of(name string) behaviour {
	if s.containers == nil {
		return behaviour{}
	}
	own, all := s.containers[name], s.containers["*"]
	inherit(&own.Pull, all.Pull)
	inherit(&own.PullError, all.PullError)
	inherit(&own.Start, all.Start)
	inherit(&own.Ready, all.Ready)
	inherit(&own.Unready, all.Unready)
	inherit(&own.Unhealthy, all.Unhealthy)
	inherit(&own.Run, all.Run)
	inherit(&own.Exit, all.Exit)
	inherit(&own.Reason, all.Reason)
	inherit(&own.Message, all.Message)
	inherit(&own.Times, all.Times)
	inherit(&own.Stop, all.Stop)
	inherit(&own.Logs, all.Logs)
	inherit(&own.Exec, all.Exec)
	inherit(&own.CPU, all.CPU)
	inherit(&own.Memory, all.Memory)
	inherit(&own.Usage, all.Usage)
	return own
}

func inherit[T any](field **T, from *T) {
	if *field == nil {
		*field = from
	}
}

// A run is how a container ends.
type run struct {
	after   time.Duration
	exit    int32
	reason  string
	message string
}

// defaultRun is the time that a container that completes runs by default.
const defaultRun = time.Second

// run returns how a container ends that has been restarted some times before, and whether it ends.
func (s *simulation) run(c *container, restarts int32) (run, bool) {
	b := c.does
	said := b.Run != nil || b.Exit != nil || b.Reason != nil
	if !said || b.Times != nil && restarts >= *b.Times {
		switch {
		case c.Kind == podstatus.Init:
			return run{reason: "Completed"}, true
		case c.Kind == podstatus.Regular && s.completes:
			return run{after: defaultRun, reason: "Completed"}, true
		}
		return run{}, false
	}
	r := run{after: defaultRun}
	if b.Run != nil {
		if *b.Run == forever {
			return run{}, false
		}
		r.after = time.Duration(*b.Run)
	}
	switch {
	case b.Exit != nil:
		r.exit = *b.Exit
	case b.Reason != nil && *b.Reason == "OOMKilled":
		r.exit = 137
	case b.Reason != nil && *b.Reason != "Completed":
		r.exit = 1
	}
	r.reason = "Completed"
	if r.exit != 0 {
		r.reason = "Error"
	}
	if b.Reason != nil {
		r.reason = *b.Reason
	}
	if b.Message != nil {
		r.message = *b.Message
	}
	return r, true
}
