# Kills over a store in a fresh FOLDER, which `kvferry fsck` must find sound afterwards.
file(REMOVE_RECURSE ${FOLDER})
execute_process(
  COMMAND ${KVFERRY} stress --kills ${KILLS} --dir ${FOLDER} --seed 1 --json --quiet
  RESULT_VARIABLE stress_result)
if(stress_result)
  message(FATAL_ERROR "stress --kills: ${stress_result}; the store is in ${FOLDER}")
endif()
foreach(command IN ITEMS fsck inspect)
  execute_process(COMMAND ${KVFERRY} ${command} ${FOLDER} RESULT_VARIABLE result)
  if(result)
    message(FATAL_ERROR "${command}: ${result}; the store is in ${FOLDER}")
  endif()
endforeach()
file(REMOVE_RECURSE ${FOLDER})
