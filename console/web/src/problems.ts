// Problems of objects: conditions that are not as they should be, and pods that do not run.
import type { Condition, KubeObject } from './api'
import { t } from './text'

/** Conditions whose status should be False; of all others it should be True. */
const bad = /Pressure$|Unavailable$|^Failed$|^FailureTarget$|Failure$|^Degraded$|^Stalled$|^NonStructuralSchema$|^KubernetesAPIApprovalPolicyConformant$|Error$|Failure|^Terminating$|^DisruptionTarget$/
/** Conditions that may have any status. */
const neutral = /^Complete$|^SuccessCriteriaMet$|^Suspended$|^Progressing$|^Reconciling$|^ScalingLimited$|^PodReadyToStartContainers$|^Initialized$|^ContainersReady$|Remaining$|^DisruptionAllowed$|^Denied$/

export function isProblem(c: Condition): boolean {
  if (c.type === 'Progressing') return c.status === 'False'
  if (neutral.test(c.type)) return false
  return bad.test(c.type) ? c.status === 'True' : c.status === 'False'
}

interface ContainerStatus { name: string; state?: { waiting?: { reason?: string; message?: string } } }
const starting = ['ContainerCreating', 'PodInitializing']

/** Returns what is wrong with an object, most important first. */
export function problemsOf(o: KubeObject): string[] {
  const found: string[] = []
  const status = o.status ?? {}
  if (o.kind === 'Pod') {
    if (status.phase === 'Succeeded') return []
    for (const list of ['initContainerStatuses', 'containerStatuses'] as const) {
      for (const c of (status[list] as ContainerStatus[] | undefined) ?? []) {
        const waiting = c.state?.waiting
        if (waiting?.reason && !starting.includes(waiting.reason)) found.push(t('pods.waiting', { container: c.name, reason: waiting.reason }))
      }
    }
    if (status.phase === 'Failed') found.push(String(status.reason ?? 'Failed'))
    const unscheduled = status.conditions?.find(c => c.type === 'PodScheduled' && c.status === 'False')
    if (unscheduled) found.push(unscheduled.message || unscheduled.reason || 'Unschedulable')
    if (found.length) return found
    if (status.phase === 'Pending') return []
  }
  const wanted = (o.spec?.replicas as number | undefined) ?? 1
  if (o.kind === 'StatefulSet' || o.kind === 'ReplicationController') {
    const ready = (status.readyReplicas as number | undefined) ?? 0
    if (ready < wanted) found.push(t('replicas.missing', { ready, wanted }))
  }
  if (o.kind === 'PersistentVolumeClaim' && status.phase !== 'Bound') found.push(String(status.phase ?? 'Pending'))
  if (o.kind === 'Namespace' && status.phase !== 'Terminating') return found
  for (const c of status.conditions ?? []) {
    if (isProblem(c)) found.push([c.type, c.reason, c.message].filter(Boolean).join(': '))
  }
  return found
}
