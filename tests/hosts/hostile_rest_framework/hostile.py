def refuse_to_answer(error, context):
    raise error
