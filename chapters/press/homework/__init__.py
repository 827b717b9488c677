"""Homework: released from one source, graded without trust, exported to learning platforms.

From `labkit homework grade` to the comparison of one answer, in press.homework and below it:

1. grading.batch.grade_class: the class; pool.run_examiners and examiner.open_examiner, processes
2. grading.grade.grade_submission: one file; definitions.read_definitions takes what counts in it
3. grading.private_test.run_private_test: one question; it yields the parts with their points
4. sandbox.worker.Worker.call: asks the student's code, confined; a value comes back
5. verdicts.close and its like: right or wrong; value_comparison.compare_values names the cause
"""
