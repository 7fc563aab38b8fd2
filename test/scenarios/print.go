package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/client"

	"github.com/cockroachdb/datadriven"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
)

// shown are the fields that show prints by default.
var shown = []string{"metadata.labels", "metadata.annotations", "metadata.finalizers", "owners", "deleting", "spec.replicas", "spec.nodeName", "status"}

// show prints the objects of kinds.
func (s *scenario) show(ctx context.Context, d *datadriven.TestData) (string, error) {
	fields := shown
	var blocks []string
	for _, a := range d.CmdArgs {
		if a.Key == "fields" {
			fields = a.Vals
		}
	}
	for _, a := range d.CmdArgs {
		if len(a.Vals) > 0 {
			continue
		}
		objects, err := s.list(ctx, a.Key)
		if err != nil {
			return "", err
		}
		var some []string
		for i := range objects {
			some = append(some, s.describe(&objects[i], fields))
		}
		blocks = append(blocks, grouped(some)...)
	}
	return strings.Join(blocks, ""), nil
}

// names prints the names of the objects of kinds.
func (s *scenario) names(ctx context.Context, d *datadriven.TestData) (string, error) {
	var lines []string
	for _, a := range d.CmdArgs {
		objects, err := s.list(ctx, a.Key)
		if err != nil {
			return "", err
		}
		var some []string
		for _, o := range objects {
			some = append(some, o.GetKind()+" "+s.text(o.GetName())+"\n")
		}
		lines = append(lines, grouped(some)...)
	}
	return strings.Join(lines, ""), nil
}

// list lists the objects of KIND, or the one that is KIND/NAME.
func (s *scenario) list(ctx context.Context, kind string) ([]unstructured.Unstructured, error) {
	if kind, name, ok := strings.Cut(kind, "/"); ok {
		all, err := s.list(ctx, kind)
		return slices.DeleteFunc(all, func(o unstructured.Unstructured) bool { return o.GetName() != name }), err
	}
	gvk, err := kindOf(kind)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
	if slices.Contains(shared, gvk) {
		if err := s.client.List(ctx, list); err != nil {
			return nil, err
		}
		return slices.DeleteFunc(list.Items, func(o unstructured.Unstructured) bool { return !s.owns(&o) }), nil
	}
	if err := s.client.List(ctx, list, client.InNamespace(s.ns)); err != nil {
		return nil, err
	}
	return list.Items, nil
}

// describe prints an object: its kind and name, and a line for each field that it has.
func (s *scenario) describe(o *unstructured.Unstructured, fields []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", o.GetKind(), s.text(o.GetName()))
	for _, field := range fields {
		var value any
		switch field {
		case "owners":
			var owners []any
			for _, r := range o.GetOwnerReferences() {
				text := r.Kind + "/" + r.Name
				if r.Controller != nil && *r.Controller {
					text += " (controller)"
				}
				owners = append(owners, text)
			}
			if owners != nil {
				value = owners
			}
		case "deleting":
			if o.GetDeletionTimestamp() != nil {
				value = true
			}
		default:
			value, _, _ = unstructured.NestedFieldNoCopy(o.Object, strings.Split(strings.TrimPrefix(field, "."), ".")...)
		}
		value = s.normal(value)
		if items, ok := value.([]any); ok && slices.Contains(unordered, field) {
			sortItems(items)
		}
		if status, ok := value.(map[string]any); ok && status["observedGeneration"] == o.GetGeneration() {
			status["observedGeneration"] = "current"
		}
		if value != nil {
			fmt.Fprintf(&b, "  %s: %s\n", strings.TrimPrefix(field, "metadata."), compact(value))
		}
	}
	return b.String()
}

// grouped sorts texts, and writes equal ones once with their number in the first line.
func grouped(texts []string) (all []string) {
	slices.Sort(texts)
	for len(texts) > 0 {
		text := texts[0]
		n := slices.IndexFunc(texts, func(other string) bool { return other != text })
		if n < 0 {
			n = len(texts)
		}
		texts = texts[n:]
		if n > 1 {
			first, rest, _ := strings.Cut(text, "\n")
			text = fmt.Sprintf("%s x%d\n%s", first, n, rest)
		}
		all = append(all, text)
	}
	return all
}

// events prints the events of the namespace, or those about objects of kinds. Kubernetes counts
// equal ones, depending on when it writes them: they are counted together.
func (s *scenario) events(ctx context.Context, d *datadriven.TestData) (string, error) {
	var list corev1.EventList
	if err := s.client.List(ctx, &list, client.InNamespace(s.ns)); err != nil {
		return "", err
	}
	if slices.ContainsFunc(d.CmdArgs, ofShared) {
		var shared corev1.EventList // those of objects without a namespace
		if err := s.client.List(ctx, &shared, client.InNamespace(metav1.NamespaceDefault)); err != nil {
			return "", err
		}
		for _, e := range shared.Items {
			if strings.HasPrefix(e.InvolvedObject.Name, s.ns+"-") {
				list.Items = append(list.Items, e)
			}
		}
	}
	var lines []string
	kinds := slices.Clone(d.CmdArgs)
	once := slices.ContainsFunc(kinds, isOnce)
	kinds = slices.DeleteFunc(kinds, isOnce)
	for _, e := range list.Items {
		isOf := func(a datadriven.CmdArg) bool { return strings.EqualFold(a.Key, e.InvolvedObject.Kind) }
		if len(kinds) > 0 && !slices.ContainsFunc(kinds, isOf) {
			continue
		}
		who := e.Source.Component
		if who == "" {
			who = e.ReportingController
		}
		line := s.text(fmt.Sprintf("%s/%s %s %s %s: %s\n", e.InvolvedObject.Kind, e.InvolvedObject.Name, who, e.Type, e.Reason, strings.TrimPrefix(e.Message, "(combined from similar events): ")))
		for range max(1, e.Count) {
			lines = append(lines, line)
		}
	}
	if once {
		slices.Sort(lines)
		lines = slices.Compact(lines)
	}
	return strings.Join(grouped(lines), ""), nil
}

// ofShared reports whether an argument is a kind without a namespace.
func ofShared(a datadriven.CmdArg) bool {
	return slices.ContainsFunc(shared, func(k schema.GroupVersionKind) bool { return strings.EqualFold(a.Key, k.Kind) })
}

func isOnce(a datadriven.CmdArg) bool { return a.Key == "once" }

// history prints what happened to objects of kinds since it was printed last.
func (s *scenario) history(d *datadriven.TestData) (string, error) {
	field, _ := argument(d, "of")
	s.mu.Lock()
	changes := s.changes
	s.changes = nil
	s.mu.Unlock()
	// Each kind has a watch, and they are not ordered among each other.
	slices.SortStableFunc(changes, func(a, b change) int {
		order, err := resourceversion.CompareResourceVersion(a.obj.GetResourceVersion(), b.obj.GetResourceVersion())
		if err != nil {
			return 0
		}
		return order
	})
	var lines []string
	last := map[string]string{} // the field by object
	for _, c := range changes {
		if !slices.ContainsFunc(d.CmdArgs, func(a datadriven.CmdArg) bool { return strings.EqualFold(a.Key, c.obj.GetKind()) }) {
			continue
		}
		name := c.obj.GetKind() + " " + s.text(c.obj.GetName())
		value := ""
		if field != "" {
			v, _, _ := unstructured.NestedFieldNoCopy(c.obj.Object, strings.Split(field, ".")...)
			value = fmt.Sprintf(" %s=%s", field, compact(s.normal(v)))
		}
		key := c.obj.GetKind() + "/" + c.obj.GetName()
		switch {
		case c.event == watch.Added:
			lines = append(lines, "create "+name+value+"\n")
		case c.event == watch.Deleted:
			lines = append(lines, "remove "+name+"\n")
		case value != last[key]:
			lines = append(lines, "change "+name+value+"\n")
		}
		last[key] = value
	}
	var b strings.Builder
	for i := 0; i < len(lines); {
		n := 1
		for i+n < len(lines) && lines[i+n] == lines[i] {
			n++
		}
		if n > 1 {
			fmt.Fprintf(&b, "%s x%d\n", strings.TrimSuffix(lines[i], "\n"), n)
		} else {
			b.WriteString(lines[i])
		}
		i += n
	}
	return b.String(), nil
}

// slotTimes are the fields and annotations whose times are slots of CronJobs.
var slotTimes = []string{"lastScheduleTime", "batch.kubernetes.io/cronjob-scheduled-timestamp"}

// unordered are the lists whose order depends on uids, or on chance.
var unordered = []string{"endpoints", "subsets", "addresses", "notReadyAddresses", "ports", "spec.taints", "taints", "volumesAttached"}

func sortItems(items []any) {
	slices.SortFunc(items, func(a, b any) int { return strings.Compare(compact(a), compact(b)) })
}

// normal returns a value without what differs from run to run; nil if nothing is left.
func (s *scenario) normal(v any) any {
	switch v := v.(type) {
	case map[string]any:
		next := map[string]any{}
		for key, value := range v {
			switch key {
			case "uid", "resourceVersion", "hostIP", "podIP":
				continue
			}
			n := s.normal(value)
			if text, ok := value.(string); ok && slices.Contains(slotTimes, key) {
				if t, err := time.Parse(time.RFC3339, text); err == nil {
					n = s.slotTime(t)
				}
			}
			if items, ok := n.([]any); ok && slices.Contains(unordered, key) {
				sortItems(items)
			}
			if n != nil {
				next[s.text(key)] = n
			}
		}
		if len(next) == 0 {
			return nil
		}
		return next
	case []any:
		next := make([]any, 0, len(v))
		for _, item := range v {
			next = append(next, s.normal(item))
		}
		return next
	case string:
		if _, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return "<time>"
		}
		return s.text(v)
	}
	return v
}

var uids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)

// autoscalers are two that select the same pods, of which a message names any first.
var autoscalers = regexp.MustCompile(`\(e\.g\. \[(\S+) (\S+)\]\)`)

// text returns a text with generated names and uids replaced.
func (s *scenario) text(text string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for prefix := range s.prefixes {
		// Also names of objects that were refused.
		text = regexp.MustCompile(regexp.QuoteMeta(prefix)+`[a-z0-9]{5}\b`).ReplaceAllString(text, prefix+"*")
	}
	text = attachmentName.ReplaceAllString(text, "csi-<hash>")
	text = autoscalers.ReplaceAllStringFunc(text, func(pair string) string {
		names := autoscalers.FindStringSubmatch(pair)[1:]
		slices.Sort(names)
		return fmt.Sprintf("(e.g. [%s])", strings.Join(names, " "))
	})
	return strings.ReplaceAll(uids.ReplaceAllString(s.slotsLocked(text), "<uid>"), s.ns, "{ns}")
}

// compact returns a value on one line with sorted keys, with a space after each colon and comma.
func compact(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var parts []string
		for _, key := range slices.Sorted(maps.Keys(v)) {
			parts = append(parts, key+": "+compact(v[key]))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		var parts []string
		for _, item := range v {
			parts = append(parts, compact(item))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSuffix(b.String(), "\n")
}
