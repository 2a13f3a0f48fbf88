#!/bin/bash
# What `sottovoce slurm @source --nodes @nodes` prints; docs/slurm.md explains it. Submit it with sbatch, from a folder
# that all nodes share. Add what your cluster needs: --partition, --account, --time, --mem.
#SBATCH --job-name=@name
#SBATCH --nodes=@nodes
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
export OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
python=@python
run=@run${SLURM_ARRAY_TASK_ID:+-$SLURM_ARRAY_TASK_ID}  # each task of an array is a run of its own
parts=$run.parts

# A requeued job finds its run dealt: nothing is dealt again, and agents go on from their ledgers.
"$python" -m node.cli deal @deal --out "$run" --parts "$parts" || exit
# One task a node. A task that fails ends no other: the other agents go on as they are configured to.
srun --kill-on-bad-exit=0 "$python" -m node.worlds.slurm_task --run "$run" --parts "$parts"
"$python" -m node.cli collect "$run" --parts "$parts"
