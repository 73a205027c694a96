import type { Group } from "../example";

export const EXTERNAL_ALLOCATIONS: Group = {
  name: "External allocations",
  examples: [
    {
      title: "allocate_gpus",
      page: "using/external-allocations.html",
      query: `# Allocates half a GPU to a job that Aliquot does not start. The lease ends after a minute unless it is renewed.
mutation AllocateGpus {
  allocate_gpus(input: { job_id: "from-graphiql", gpu_count: 0.5, lease: 60 }) {
    __typename
    ... on GpusAllocated { job_id session_id gpus { node_id gpu_id share memory_gb } expires_at renewed }
    ... on Error { code message }
  }
}
`,
    },
    {
      title: "release_gpus",
      page: "using/external-allocations.html",
      query: `# Allocates or renews it as "allocate_gpus" does, and releases it.
mutation ReleaseGpus {
  allocate_gpus(input: { job_id: "from-graphiql", gpu_count: 0.5, lease: 60 }) {
    __typename
    ... on Error { code message }
  }
  release_gpus(job_id: "from-graphiql") {
    __typename
    ... on GpusAllocated { job_id gpu_ids }
    ... on Error { code message }
  }
}
`,
    },
  ],
};
