package cluster

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/kinds/kind"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// resourceQuotasTable is the table of resource quotas.
func resourceQuotasTable() kind.Table[*corev1.ResourceQuota] {
	return kind.Table[*corev1.ResourceQuota]{Columns: []metav1.TableColumnDefinition{
		kind.NameColumn(),
		kind.Column("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
		kind.Column("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node."),
		kind.AgeColumn(),
	}, Cells: resourceQuotaCells}
}

func resourceQuotaCells(quota *corev1.ResourceQuota, now time.Time) []any {
	var requests, limits []string
	for _, name := range slices.Sorted(maps.Keys(quota.Status.Hard)) {
		used, hard := quota.Status.Used[name], quota.Status.Hard[name]
		cell := fmt.Sprintf("%s: %s/%s", name, used.String(), hard.String())
		if strings.HasPrefix(string(name), "limits.") {
			limits = append(limits, cell)
		} else {
			requests = append(requests, cell)
		}
	}
	return []any{quota.Name, strings.Join(requests, ", "), strings.Join(limits, ", "), kind.Age(quota.ObjectMeta, now)}
}
