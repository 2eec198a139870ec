/* Slurm's words in plain ones. */
#include "config.h"
#include "launcher/slurm_jobs.h"

#include <stdio.h>
#include <string.h>

struct word {
    const char *slurm, *plain;
};

/* squeue(1), JOB REASON CODES. A name that ends with '*' stands for all that begin so. */
static const struct word reasons[] = {
    {"None", "the scheduler has not looked at it yet"},
    {"Priority", "jobs of higher priority are ahead of it"},
    {"Resources", "it is next, and waits for nodes to become free"},
    {"BeginTime", "it may not begin yet (after a requeue Slurm lets up to two minutes pass)"},
    {"Dependency", "it waits for another job to end"},
    {"DependencyNeverSatisfied", "the job that it waits for ended otherwise than it must: it will never begin (zeppelin cancel)"},
    {"Cleaning", "it was requeued, and what is left of its last start is being cleared away"},
    {"JobHeldUser", "it is held by its user (scontrol release)"},
    {"JobHeldAdmin", "it is held by an administrator"},
    {"JobHoldMaxRequeue", "it was requeued too often and is held (scontrol release)"},
    {"launch*", "its launch failed, and it is held (scontrol release, once the node is well)"},
    {"Licenses", "it waits for a licence"},
    {"Reservation", "it waits for its reservation to begin"},
    {"ReqNodeNotAvail*", "a node that it asks for is down, drained or reserved"},
    {"Nodes_required_for_job_are_DOWN*", "nodes that it needs are down, drained or reserved"},
    {"NodeDown", "a node that it needs is down"},
    {"BadConstraints", "no node is as it asks for: it will never begin (look at partition, constraint and GPUs)"},
    {"PartitionDown", "its partition is down"},
    {"PartitionInactive", "its partition does not start jobs now"},
    {"PartitionNodeLimit", "it asks for more nodes than its partition gives a job"},
    {"PartitionTimeLimit", "it asks for more time than its partition gives (cluster.time)"},
    {"AccountNotAllowed", "its account may not use the partition (cluster.account)"},
    {"InvalidAccount", "its account is not valid (cluster.account)"},
    {"InvalidQOS", "its quality of service is not valid (cluster.qos)"},
    {"QOSNotAllowed", "its quality of service may not be used there (cluster.qos)"},
    {"JobArrayTaskLimit", "as many runs of the sweep as may run at the same time do so"},
    {"MaxMemPerLimit", "it asks for more memory than the limits allow"},
    {"FrontEndDown", "no front end is up"},
    {"BurstBuffer*", "it waits for the burst buffer"},
    {"SystemFailure", "Slurm or a file system failed"},
    {"QOSMaxWallDurationPerJobLimit", "it asks for more time than its quality of service allows (cluster.time)"},
    {"QOSMaxNode*", "it asks for more nodes than its quality of service allows"},
    {"QOSMaxJobs*", "its user has as many jobs as the quality of service allows"},
    {"QOSGrp*", "all jobs of its quality of service together are at their limit"},
    {"QOSMin*", "it asks for less than its quality of service requires"},
    {"QOSMax*", "it is at a limit of its quality of service"},
    {"QOS*", "it is at a limit of its quality of service"},
    {"AssocGrp*", "all jobs of its account together are at their limit"},
    {"AssocMaxJobsLimit", "its user has as many jobs as the account allows"},
    {"AssocMaxWallDurationPerJobLimit", "it asks for more time than its account allows (cluster.time)"},
    {"Assoc*", "it is at a limit of its account"},
    {"MaxGRES*", "it is at a limit on GPUs"},
};

static const struct word ends[] = {
    {"COMPLETED", "the job ended"},
    {"CANCELLED", "it was cancelled"},
    {"FAILED", "the job failed"},
    {"TIMEOUT", "the time limit ended it"},
    {"NODE_FAIL", "a node was lost"},
    {"PREEMPTED", "it gave way to another job"},
    {"BOOT_FAIL", "a node did not boot"},
    {"DEADLINE", "its deadline passed"},
    {"OUT_OF_MEMORY", "it used more memory than it had asked for"},
};

static const char *find(const struct word *w, size_t n, const char *name, size_t len)
{
    for (size_t i = 0; i < n; i++) {
        size_t part = strlen(w[i].slurm);

        if (w[i].slurm[part - 1] == '*' ? len >= part - 1 && !strncmp(w[i].slurm, name, part - 1) : part == len && !strncmp(w[i].slurm, name, len))
            return w[i].plain;
    }
    return NULL;
}

void zep_slurm_why(const char *reason, char *out, size_t size)
{
    size_t len = strcspn(reason, " ,(");
    const char *plain = find(reasons, sizeof reasons / sizeof reasons[0], reason, len);

    if (plain)
        snprintf(out, size, "%s (%s)", plain, reason);
    else
        snprintf(out, size, "Slurm's reason is %s", reason);
}

const char *zep_slurm_ended(const char *state)
{
    const char *plain = find(ends, sizeof ends / sizeof ends[0], state, strlen(state));

    return plain ? plain : "the job ended";
}

int zep_slurm_exit_status(const char *state)
{
    if (!strcmp(state, "CANCELLED"))
        return 128 + 15;
    if (!strcmp(state, "FAILED") || !strcmp(state, "OUT_OF_MEMORY"))
        return zep_exit_status(ZEP_EIO);
    return zep_exit_status(ZEP_EPEER);
}
