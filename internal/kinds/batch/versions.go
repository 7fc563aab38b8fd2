package batch

import (
	"github.com/kapok-dev/kapok/convert"
	"github.com/kapok-dev/kapok/internal/kinds/kind"

	batchv1 "k8s.io/api/batch/v1"
	batchv1beta1 "k8s.io/api/batch/v1beta1"
)

// Conversions are the conversions of this group's types.
func Conversions() []convert.Rule {
	return []convert.Rule{
		kind.Same[batchv1.CronJob, batchv1.CronJob](),
		kind.Same[batchv1.CronJob, batchv1beta1.CronJob](),
	}
}
